/**
 * The HTTP servers that run on this machine. Where no uWebSockets.js loads (Node 24 with an older glibc, musl) the
 * relay serves with node:http alone, and so do its tests; test/unit/relay/http/uws-binding.test.ts says where it must
 * load.
 */
import { uwsHere } from '../../src/relay/http/uws-binding.ts';
import { IS_REST, IS_THOROUGH } from './thorough.ts';

export type Adapter = 'uws' | 'node';

export const ADAPTERS: readonly Adapter[] = uwsHere().binding ? ['uws', 'node'] : ['node'];

/** uWebSockets.js where it runs. */
export const FIRST_ADAPTER: Adapter = ADAPTERS[0] ?? 'node';

const OTHERS = ADAPTERS.filter((adapter) => adapter !== FIRST_ADAPTER);

/** For rules that neither of them decides: one, or both where all is tried. */
export const ANY_ADAPTER: readonly Adapter[] =
  IS_REST && OTHERS.length > 0 ? OTHERS : IS_THOROUGH ? ADAPTERS : [FIRST_ADAPTER];
