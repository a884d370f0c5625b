// The newest samples of all brokers: read once, then as they come, over one stream for this tab.
import { get, path } from './api';
import type { BrokerSeries, LiveEvent, SeriesView } from './types';

/** As long as a plot is wide. */
const WINDOW_MS = 900_000;

export interface Line {
  broker: number;
  at: number[];
  values: Record<string, number[]>;
}

class Live {
  lines = $state.raw<Line[]>([]);
  missing = $state.raw<Record<string, string>>({});
  isOpen = $state(false);
  #users = 0;
  #events: EventSource | undefined;
  /** Which series are counters; undefined: not known yet, and no sample means anything. */
  #counters: Set<string> | undefined;
  #isReading = false;

  /** Call while a component is set up that shows live values. */
  use(): void {
    $effect(() => {
      this.#users += 1;
      if (this.#users === 1) {
        document.addEventListener('visibilitychange', this.#onVisible);
        this.#onVisible();
      }
      return () => {
        this.#users -= 1;
        if (this.#users === 0) {
          document.removeEventListener('visibilitychange', this.#onVisible);
          this.#close();
        }
      };
    });
  }

  isCounter(name: string): boolean {
    return this.#counters?.has(name) ?? false;
  }

  // A hidden tab holds no connection: browsers have six of them for all tabs of one place.
  #onVisible = (): void => {
    if (document.hidden) this.#close();
    else void this.#open();
  };

  #close(): void {
    this.#events?.close();
    this.#events = undefined;
    this.isOpen = false;
  }

  async #open(): Promise<void> {
    if (this.#events) return;
    const events = new EventSource('/api/v1/live');
    this.#events = events;
    events.addEventListener('open', () => (this.isOpen = true));
    events.addEventListener('error', () => (this.isOpen = false));
    events.addEventListener('gap', () => void this.#readAll());
    events.addEventListener('samples', (event) => {
      const told = JSON.parse((event as MessageEvent<string>).data) as LiveEvent;
      this.missing = told.missing;
      if (!this.#counters) void this.#readAll();
      else this.lines = merged(this.lines, told.brokers);
    });
    await this.#readAll();
  }

  async #readAll(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      const told = await get<SeriesView>(path(['series']));
      this.#counters = new Set(told.series.filter((each) => each.is_counter).map((e) => e.name));
      this.lines = merged([], told.brokers);
    } catch {
      // The stream's own state says that nothing comes; with the next sample it is tried again.
    } finally {
      this.#isReading = false;
    }
  }
}

function merged(before: Line[], told: BrokerSeries[]): Line[] {
  const found = new Map(before.map((each) => [each.broker, each]));
  for (const each of told) {
    const old = found.get(each.broker) ?? { broker: each.broker, at: [], values: {} };
    const last = old.at.at(-1) ?? 0;
    const from = each.at.findIndex((at) => at > last);
    if (from < 0) continue;
    const at = [...old.at, ...each.at.slice(from)];
    const first = at.findIndex((each) => each > (at.at(-1) ?? 0) - WINDOW_MS);
    const values: Record<string, number[]> = {};
    for (const [name, column] of Object.entries(each.values)) {
      values[name] = [...(old.values[name] ?? []), ...column.slice(from)].slice(first);
    }
    found.set(each.broker, { broker: each.broker, at: at.slice(first), values });
  }
  return [...found.values()].sort((a, b) => a.broker - b.broker);
}

/** What a counter grew a second; null where the broker was restarted or did not answer. */
export function rates(at: number[], values: number[]): (number | null)[] {
  return values.map((value, i) => {
    const before = values[i - 1];
    const since = at[i - 1];
    if (before === undefined || since === undefined || value < before) return null;
    const seconds = ((at[i] ?? 0) - since) / 1000;
    return seconds > 0 && seconds < 10 ? (value - before) / seconds : null;
  });
}

export const live = new Live();
