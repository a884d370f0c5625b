// Light or dark: what the system says, unless somebody has chosen.

type Choice = 'system' | 'light' | 'dark';
const KEY = 'kafkaesque.theme';

class Theme {
  choice = $state<Choice>('system');
  #isSystemDark = $state(false);

  constructor() {
    const dark = matchMedia('(prefers-color-scheme: dark)');
    this.#isSystemDark = dark.matches;
    dark.addEventListener('change', () => (this.#isSystemDark = dark.matches));
    const kept = localStorage.getItem(KEY);
    if (kept === 'light' || kept === 'dark') this.choice = kept;
    this.#apply();
  }

  get shown(): 'light' | 'dark' {
    if (this.choice !== 'system') return this.choice;
    return this.#isSystemDark ? 'dark' : 'light';
  }

  toggle(): void {
    this.choice = this.shown === 'dark' ? 'light' : 'dark';
    localStorage.setItem(KEY, this.choice);
    this.#apply();
  }

  #apply(): void {
    if (this.choice === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.choice;
  }
}

export const theme = new Theme();
