// Rules of transformations. They stay text: a number in them may have more than 53 bits.

/** What a new one begins with. */
export const EXAMPLE = '{"when":"region IS NOT NULL","steps":[{"do":"rename","at":"$.customer","to":"$.customer_id"},{"do":"set","at":"headers.version","value":2}]}';

/** A rule as a broker writes it, on several lines. Quotes in its texts have a backslash before them. */
export function layOut(rule: string): string {
  return rule
    .replace(/([{,])"(when|failures|steps)":/g, '$1\n  "$2": ')
    .replaceAll('{"do":', '\n    {"do":')
    .replace(/\]\}$/, '\n  ]\n}');
}

/** Its steps, each as a broker writes it. */
export function stepsOf(rule: string): string[] {
  const lines = layOut(rule).split('\n').map((each) => each.trim());
  return lines.filter((each) => each.startsWith('{"do":')).map((each) => each.replace(/,$/, ''));
}

interface Step {
  do: string;
  at: string;
  to?: string;
  text?: string;
  by?: string;
  into?: string[];
}

/** What a step does, in words. */
export function inWords(step: string): string {
  const { do: verb, at, to, text, by, into } = JSON.parse(step) as Step;
  switch (verb) {
    case 'rename': return `moves ${at} to ${to}`;
    case 'cast': return `makes ${at} a ${to}`;
    case 'template': return `writes “${text}” to ${at}`;
    case 'drop': return `takes ${at} away`;
    case 'split': return `cuts ${at} at “${by}” into ${into?.join(', ')}`;
    case 'set': return `puts a constant at ${at}`;
    default: return verb;
  }
}

/** Lines of NAME=VALUE. */
export function pairs(lines: string): [string, string][] {
  return lines.split('\n').filter((each) => each.includes('=')).map((each) => {
    const at = each.indexOf('=');
    return [each.slice(0, at).trim(), each.slice(at + 1)];
  });
}
