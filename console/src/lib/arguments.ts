// Arguments of exchanges and bindings. They stay text: a number in them may have more than 53 bits.

/** The argument that names what changes messages on their way to a queue or a topic. */
export const TRANSFORMATION = 'x-transformation';

/** A JSON object with one argument more; what is no object stays what it is, for the broker to refuse. */
export function withTransformation(text: string, name: string): string {
  const rest = text.trim();
  if (!name) return rest;
  const first = `{${JSON.stringify(TRANSFORMATION)}: ${JSON.stringify(name)}`;
  if (!rest) return `${first}}`;
  if (!rest.startsWith('{')) return rest;
  const more = rest.slice(1).trimStart();
  return more.startsWith('}') ? `${first}${more}` : `${first}, ${more}`;
}

function read(text: string): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(text || '{}');
    return found !== null && typeof found === 'object' && !Array.isArray(found) ? (found as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Arguments as the command takes them. */
export function argumentWords(text: string): string[] {
  return Object.entries(read(text)).flatMap(([name, value]) => [
    '-a', `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  ]);
}

/** What changes messages on the way of a binding; empty: nothing does. */
export function transformationOf(text: string): string {
  const name = read(text)[TRANSFORMATION];
  return typeof name === 'string' ? name : '';
}
