/** Says whether a parsed JSON value is an object. Apart from everything else, as the start of a hook needs it. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
