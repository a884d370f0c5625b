// Numbers and times as people read them.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const NUMBERS = new Intl.NumberFormat('en');
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  let at = 0;
  let found = value;
  while (found >= 1024 && at < UNITS.length - 1) {
    found /= 1024;
    at += 1;
  }
  return `${at === 0 || found >= 100 ? Math.round(found) : found.toFixed(1)} ${UNITS[at]}`;
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : NUMBERS.format(value);
}

export function short(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : SHORT.format(value);
}

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '–';
  const seconds = ms / 1000;
  if (seconds < 1) return `${Math.round(ms)} ms`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** Of something short: a millisecond has three digits behind the point. */
export function micros(us: number | null | undefined): string {
  if (us === null || us === undefined) return '–';
  return us < 10_000_000 ? `${(us / 1000).toFixed(us < 100_000 ? 2 : 0)} ms` : duration(us / 1000);
}

/** Local time to the millisecond, as it can be compared and sorted. */
export function time(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '–';
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day} ${clock}.${String(at.getMilliseconds()).padStart(3, '0')}`;
}

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w.,:/@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

export type Show = (value: number | null | undefined) => string;

export const perSecond: Show = (value) => `${short(value)}/s`;
export const bytesPerSecond: Show = (value) => `${bytes(value)}/s`;
export const seconds: Show = (value) => duration(value === null || value === undefined ? value : value * 1000);
export const percent: Show = (value) =>
  value === null || value === undefined ? '–' : `${value.toFixed(1)}%`;
