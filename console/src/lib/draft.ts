// A message that is about to be published: written anew, or one that is sent again.
import { get, path } from './api';
import { quoted } from './format';
import type { Content, Message, MessagePage, NewMessage } from './types';

/** So many headers of a message are shown, and may be published. */
export const HEADERS_MAX = 100;
/** The longest request to publish: the broker takes 1 MiB. */
const REQUEST_BYTES_MAX = 1_000_000;
const TOO_LONG = 'It is too long to be sent again from here.';

export interface DraftHeader {
  name: string;
  /** Null: the header has no value, which is not an empty one. */
  value: string | null;
}

export interface Draft {
  hasKey: boolean;
  key: string;
  /** False: the value is null, a tombstone. */
  hasValue: boolean;
  value: string;
  headers: DraftHeader[];
  /** Empty: that of the key. */
  partition: string;
  /** Key, value and headers are base64: bytes that no field could hold are sent as they are. */
  isBytes: boolean;
}

export function emptyDraft(): Draft {
  return { hasKey: false, key: '', hasValue: true, value: '', headers: [], partition: '', isBytes: false };
}

/** What a message was written as, whatever it is shown as; throws if that is not to be had. */
export async function draftOf(topic: string, message: Message): Promise<Draft> {
  const { partition, offset } = message;
  const page = await get<MessagePage>(path(['topics', topic, 'messages'], { partition, offset, limit: 1, show: 'hex' }));
  const found = page.items.find((each) => each.offset === offset);
  if (!found) throw new Error('It is not there any more.');
  const parts = [found.key, found.value, ...found.headers.map((each) => each.value)];
  if (parts.some((each) => each.is_cut) || found.headers.length >= HEADERS_MAX) {
    throw new Error(TOO_LONG);
  }
  const bytes = parts.map(bytesOf);
  const texts = bytes.map(textOf);
  const isBytes = texts.some((each) => each === undefined);
  const written = isBytes ? bytes.map((each) => each && base64(each)) : texts;
  const [key = null, value = null, ...headers] = written.map((each) => each ?? null);
  const draft = {
    hasKey: key !== null,
    key: key ?? '',
    hasValue: value !== null,
    value: value ?? '',
    headers: found.headers.map(({ name }, i) => ({ name, value: headers[i] ?? null })),
    partition: String(partition),
    isBytes,
  };
  if (new Blob([JSON.stringify(messageOf(draft))]).size > REQUEST_BYTES_MAX) throw new Error(TOO_LONG);
  return draft;
}

export function messageOf(draft: Draft): NewMessage {
  const found: NewMessage = { value: draft.hasValue ? draft.value : null };
  if (draft.hasKey) found.key = draft.key;
  if (draft.headers.length) found.headers = draft.headers;
  if (draft.partition !== '') found.partition = Number(draft.partition);
  if (draft.isBytes) found.encoding = 'base64';
  return found;
}

/** The command that publishes it. */
export function publishLine(topic: string, draft: Draft): string {
  const words = ['kafkaesque', 'publish', topic, ...(draft.partition === '' ? [] : ['--partition', draft.partition])];
  const isPlain = !draft.isBytes && draft.hasValue && draft.headers.every((each) => each.value !== null);
  if (isPlain) {
    if (draft.hasKey) words.push('--key', draft.key);
    for (const each of draft.headers) words.push('--header', `${each.name}=${each.value}`);
    return [...words, '--', draft.value].map(quoted).join(' ');
  }
  const written = (text: string | null) => (text !== null && draft.isBytes ? { base64: text } : text);
  const line: Record<string, unknown> = { value: written(draft.hasValue ? draft.value : null) };
  if (draft.hasKey) line.key = written(draft.key);
  if (draft.headers.length) line.headers = draft.headers.map((each) => [each.name, written(each.value)]);
  return `printf '%s\\n' ${quoted(JSON.stringify(line))} | ${[...words, '--format', 'json'].map(quoted).join(' ')}`;
}

/** The command that sends a message again as it is. */
export function repeatLine(topic: string, { partition, offset }: Message): string {
  const read = ['kafkaesque', 'consume', topic, '--partition', `${partition}`, '--offset', `${offset}`, '--max', '1', '--json'];
  const write = ['kafkaesque', 'publish', topic, '--partition', `${partition}`, '--format', 'json'];
  return `${read.map(quoted).join(' ')} | ${write.map(quoted).join(' ')}`;
}

function bytesOf(content: Content): Uint8Array | null {
  if (content.kind === 'null') return null;
  return Uint8Array.from(content.text.match(/../g) ?? [], (each) => parseInt(each, 16));
}

/** What a field can hold; undefined if these bytes are something else. */
function textOf(bytes: Uint8Array | null): string | null | undefined {
  if (bytes === null) return null;
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function base64(bytes: Uint8Array): string {
  let text = '';
  for (const each of bytes) text += String.fromCharCode(each);
  return btoa(text);
}
