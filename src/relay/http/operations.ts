/**
 * Every operation of the relay, in one table: what the OpenAPI document says and what the tests hold each answer to.
 *
 * A new route gets a new entry in relay-operations.ts: a route without one does not start (`describedOperations`). What
 * every operation of an access may answer is added by openapi.ts.
 */
import type { Operation } from './operation.ts';
import { OPERATOR_OPERATIONS } from './operator-operations.ts';
import { RELAY_OPERATIONS } from './relay-operations.ts';
import type { Route } from './route.ts';

export const OPERATIONS: readonly Operation[] = [...RELAY_OPERATIONS, ...OPERATOR_OPERATIONS];

/** The operations of a relay with these routes, and the operator's. Throws when a route is not described as it is. */
export function describedOperations(routes: readonly Pick<Route, 'method' | 'path' | 'access'>[]): Operation[] {
  const described = routes.map(({ method, path, access }) => {
    const found = RELAY_OPERATIONS.find((one) => one.method === method && one.path === path);
    if (!found) throw new Error(`invariant: ${method} ${path} is described`);
    const byName = path.startsWith('/v1/') ? 'hop by key or name' : 'hop by key';
    if (found.access !== (access === 'hop' ? byName : access)) {
      throw new Error(`invariant: ${method} ${path} is described with its access`);
    }
    return found;
  });
  return [...described, ...OPERATOR_OPERATIONS];
}
