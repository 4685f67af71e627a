/**
 * Tells Stryker which code nothing reaches, so that no test can tell a mutant of it: the `default` of a switch over a
 * closed type, where the compiler has proven that no value is left, and the `assertNever` that it calls.
 */
const REASON = 'The compiler proves that this is never reached.';

/** @param path a NodePath of Babel */
function shouldIgnore({ node }) {
  if (node.type === 'FunctionDeclaration' && node.id?.name === 'assertNever') return REASON;
  if (node.type !== 'SwitchCase' || node.test !== null || node.consequent.length !== 1) return undefined;
  const [only] = node.consequent;
  const called = only.type === 'ReturnStatement' ? only.argument : undefined;
  return called?.type === 'CallExpression' && called.callee.name === 'assertNever' ? REASON : undefined;
}

export const strykerPlugins = [{ kind: 'Ignore', name: 'unreachable', value: { shouldIgnore } }];
