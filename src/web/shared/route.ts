/** The route of a page: the hash of its address, `#/view/subject?query`. */
import { type ReadonlySignal, signal } from '@preact/signals';
import { changeView } from './place.ts';
import { notice } from './session.ts';

interface HashParts {
  view: string;
  subject: string;
  query: URLSearchParams;
}

/** The current route, as `routeOf` reads it from the hash. A new route removes the notice of the last action. */
export function currentRoute<Route>(routeOf: (parts: HashParts) => Route): ReadonlySignal<Route> {
  const read = (): Route => routeOf(hashParts(location.hash));
  const route = signal(read());
  addEventListener('hashchange', ({ oldURL }) => {
    // The page still shows the view that is left.
    changeView(oldURL);
    route.value = read();
    notice.value = '';
  });
  return route;
}

function hashParts(hash: string): HashParts {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?');
  const [view = '', subject = ''] = path.split('/');
  return { view, subject: decode(subject), query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}
