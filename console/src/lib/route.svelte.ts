// The address says what is shown: #/topics/orders?tab=groups. Nothing else keeps state of a page.

export interface Place {
  parts: string[];
  query: Record<string, string>;
}

function read(): Place {
  const [before = '', after = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  const parts = before.split('/').filter(Boolean).map(decode);
  return { parts, query: Object.fromEntries(new URLSearchParams(after)) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

class Route {
  place = $state.raw<Place>(read());

  constructor() {
    addEventListener('hashchange', () => (this.place = read()));
  }

  get parts(): string[] {
    return this.place.parts;
  }

  query(name: string, otherwise = ''): string {
    return this.place.query[name] ?? otherwise;
  }

  /** Set a part of the query; `isNew` makes a step to go back from. */
  set(changes: Record<string, string>, isNew = false): void {
    const query: Record<string, string> = { ...this.place.query, ...changes };
    for (const name of Object.keys(query)) if (query[name] === '') delete query[name];
    const to = link(this.place.parts, query);
    if (isNew) location.hash = to;
    else {
      history.replaceState(null, '', to);
      this.place = read();
    }
  }

  go(to: string): void {
    location.hash = to;
  }
}

export function link(parts: (string | number)[], query: Record<string, string> = {}): string {
  const text = new URLSearchParams(query).toString();
  return '#/' + parts.map((each) => encodeURIComponent(each)).join('/') + (text ? `?${text}` : '');
}

export const route = new Route();
