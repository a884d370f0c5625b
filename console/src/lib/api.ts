// What the console asks of a broker: the API, and nothing else.
import type { Problem } from './types';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
  ) {
    super(message);
  }
}

const ROOT = '/api/v1';
/** So long an answer is waited for. */
const ANSWER_MS_MAX = 15_000;

const HEADERS = { 'content-type': 'application/json', 'x-kafkaesque-request': '1' };

export type Query = Record<string, string | number | boolean | null | undefined>;

/** A path of the API, with what of the query is set. */
export function path(parts: string[], query: Query = {}): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '' && value !== false) {
      found.set(name, String(value));
    }
  }
  const text = found.toString();
  return '/' + parts.map(encodeURIComponent).join('/') + (text ? `?${text}` : '');
}

async function read(response: Response): Promise<never> {
  if (response.status === 401) location.replace('/login.html' + location.hash);
  // It is no JSON where something between here and the broker has answered.
  const problem = (await response.json().catch(() => ({}))) as Partial<Problem>;
  const message = problem.message ?? `the broker answered with ${response.status}`;
  throw new ApiError(response.status, problem.error ?? 'Error', message);
}

async function send(target: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(ROOT + target, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, 'Unreachable', 'the broker that served this page does not answer');
  }
  return response.ok ? response : read(response);
}

export async function get<T>(target: string, signal?: AbortSignal): Promise<T> {
  const late = AbortSignal.timeout(ANSWER_MS_MAX);
  const both = signal ? AbortSignal.any([signal, late]) : late;
  const response = await send(target, { signal: both });
  return (await response.json()) as T;
}

/** Also says what the answer's ETag is, for a change that is to be of just that. */
export async function getTagged<T>(target: string): Promise<{ value: T; tag: string }> {
  const response = await send(target, {});
  return { value: (await response.json()) as T, tag: response.headers.get('etag') ?? '' };
}

export async function change<T>(
  method: string,
  target: string,
  body?: unknown,
  tag = '',
): Promise<T> {
  const headers: Record<string, string> = { ...HEADERS };
  if (tag) headers['if-match'] = tag;
  const response = await send(target, { method, headers, body: JSON.stringify(body) ?? null });
  return (await response.json()) as T;
}

/** Gives each line of an answer as it comes. */
export async function lines<T>(
  target: string,
  body: unknown,
  signal: AbortSignal,
  onLine: (line: T) => void,
): Promise<void> {
  const response = await send(target, {
    method: 'POST',
    headers: HEADERS,
    body: JSON.stringify(body),
    signal,
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  while (reader) {
    const { value, done } = await reader.read();
    if (done) return;
    const found = (rest + value).split('\n');
    rest = found.pop() ?? '';
    for (const line of found) if (line) onLine(JSON.parse(line) as T);
  }
}
