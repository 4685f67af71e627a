/**
 * Every operation of the relay, of hosts and of the operator: what the OpenAPI document says, and what the tests hold each
 * answer to. A relay does not start with a route for hosts that has no description.
 */
import type { Operation } from './http/operation.ts';
import { RELAY_OPERATIONS } from './http/operations.ts';
import type { Route } from './http/route.ts';
import { OPERATOR_OPERATIONS } from './operator/operations.ts';

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
