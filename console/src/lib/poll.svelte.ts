// A resource that is read again and again while somebody looks at it.
import { ApiError, get } from './api';

export class Polled<T> {
  data = $state.raw<T | undefined>();
  error = $state.raw<ApiError | undefined>();
  /** When the newest answer came, by this machine's clock. */
  cameAt = $state(0);
  again: () => void = () => {};
}

/** Call while a component is set up; `target` may depend on its state. */
export function poll<T>(target: () => string | undefined, everyMs = 3_000): Polled<T> {
  const polled = new Polled<T>();
  $effect(() => {
    const wanted = target();
    if (wanted === undefined) return;
    const gone = new AbortController();
    let timer = 0;
    let isAsking = false;

    async function ask(where: string): Promise<void> {
      if (isAsking || document.hidden) return;
      clearTimeout(timer);
      isAsking = true;
      try {
        polled.data = await get<T>(where, gone.signal);
        polled.error = undefined;
        polled.cameAt = Date.now();
      } catch (error) {
        if (gone.signal.aborted) return;
        polled.error =
          error instanceof ApiError ? error : new ApiError(0, 'Late', 'the broker does not answer in time');
        if (polled.error.status === 404) polled.data = undefined;
      } finally {
        isAsking = false;
      }
      timer = window.setTimeout(() => void ask(where), everyMs);
    }

    const onVisible = () => void ask(wanted);
    polled.again = onVisible;
    document.addEventListener('visibilitychange', onVisible);
    void ask(wanted);
    return () => {
      gone.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisible);
    };
  });
  return polled;
}
