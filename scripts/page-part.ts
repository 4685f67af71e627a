/** Parts of pages that a command makes anew between two comments, while what stands around them stays. */

/** The page with that part; `command` is the npm script that makes it. Fails where the page has no place for it. */
export function withPart(page: string, part: { name: string; command: string; text: string }): string {
  const { name, command, text } = part;
  const [begin, end] = [`<!-- ${name}: made by npm run ${command} -->`, `<!-- end of ${name} -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`the page has no place for ${name}`);
  return `${page.slice(0, from + begin.length)}\n\n${text}\n\n${page.slice(to)}`;
}
