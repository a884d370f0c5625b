// Who has logged in: asked once, as another log-in loads the console again.
import { get } from './api';
import type { SessionView } from './types';

class Session {
  /** Null: nobody, or not known yet. */
  user = $state<string | null>(null);

  constructor() {
    get<SessionView>('/session')
      .then((found) => (this.user = found.user))
      // Each page says itself that the broker does not answer.
      .catch(() => undefined);
  }
}

export const session = new Session();
