/**
 * Keeps the place in each view of a page: the item that is selected (`data-item`: a row of a list, a message), and how
 * far the view is scrolled. A view that is opened again, by a link, a key or the browser's back, is shown as it was
 * left. While a view is open the focus stays with the selected item when an update moves it, and goes to the item that
 * stands there next when it leaves.
 */

interface Place {
  /** The selected item, and the number of items before it. */
  selected: { id: string; at: number } | undefined;
  /** The first item in the window, and the distance of its top from that of the window. */
  anchor: { id: string; top: number } | undefined;
  scrolled: number;
}

/** When there are this many, a new one replaces the oldest. */
const PLACES_MAX = 50;
/** A browser lays out the rows of a long list when they come near: so long the place is looked for. */
const FRAMES = 10;

/** The places, by the view in the hash. */
const places = new Map<string, Place>();
let selected: Place['selected'];
/** Says whether the focus is on the selected item, or was until an update took it away. */
let isHeld = false;
/** The place that the view gets once its items are there, and the frames that are left for that. */
let wanted: Place | undefined;
let framesLeft = 0;
/** Says whether the view was open before. */
let isKnown = false;

export function items(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>('main [data-item]')];
}

/** Gives the focus to an item without moving the page; nothing where there is none. */
export function holdItem(item: HTMLElement | undefined): void {
  const control = item?.matches('[tabindex]') ? item : item?.querySelector<HTMLElement>('a');
  control?.focus({ preventScroll: true });
}

/** Says whether the view that is open was open before, so that its place is the one that was kept. */
export function isReturning(): boolean {
  return isKnown;
}

/** Starts to keep places. Call it once. */
export function keepPlaces(): void {
  history.scrollRestoration = 'manual';
  document.addEventListener('focusin', ({ target }) => {
    isHeld = select(target);
  });
  // Some browsers give no focus to a link that is clicked.
  document.addEventListener('click', ({ target }) => select(target));
  for (const type of ['pointerdown', 'wheel', 'keydown']) addEventListener(type, takeOver, { passive: true });
  new MutationObserver(settle).observe(document.body, { childList: true, subtree: true });
}

/** Keeps the place of the view that is left, at `oldURL`. The page shows that view still, and then the next one. */
export function changeView(oldURL: string): void {
  const left = viewOf(oldURL);
  places.delete(left);
  places.set(left, currentPlace());
  for (const oldest of places.keys()) if (places.size > PLACES_MAX) places.delete(oldest);
  selected = undefined;
  isHeld = false;
  wanted = places.get(viewOf(location.href));
  framesLeft = FRAMES;
  isKnown = wanted !== undefined;
  scrollTo(0, 0);
}

/** The view that this hash names begins at its top when it is opened again. */
export function forgetPlace(hash: string): void {
  places.delete(viewOf(new URL(hash, location.href).href));
}

/** A query that gives a value names another list; a word alone says what gets the focus. */
function viewOf(address: string): string {
  const { hash } = new URL(address);
  return hash.includes('=') ? hash : (hash.split('?')[0] ?? '');
}

function currentPlace(): Place {
  const top = document.querySelector('header')?.getBoundingClientRect().bottom ?? 0;
  const first = items().find((item) => item.getBoundingClientRect().bottom > top);
  const anchor = first && { id: idOf(first), top: first.getBoundingClientRect().top };
  return { selected, anchor, scrolled: scrollY };
}

function idOf(item: HTMLElement): string {
  return item.dataset['item'] ?? '';
}

/** Says whether `target` is in an item, which is the selected one from now on. */
function select(target: EventTarget | null): boolean {
  const item = target instanceof Element ? target.closest<HTMLElement>('main [data-item]') : null;
  if (item) selected = { id: idOf(item), at: items().indexOf(item) };
  return item !== null;
}

/** Leaves the page to the user, who lets go of an item by a click beside it or by Esc. */
function takeOver(event: Event): void {
  wanted = undefined;
  const isEscape = event instanceof KeyboardEvent && event.key === 'Escape';
  const isBeside = event.type === 'pointerdown' && !(event.target as Element).closest('[data-item]');
  if (isEscape || isBeside) isHeld = false;
}

/** Follows each change of the page: goes back to the wanted place, or holds the selected item. */
function settle(): void {
  if (wanted) return restore(wanted);
  if (!selected) return;
  const all = items();
  const at = all.findIndex((item) => idOf(item) === selected?.id);
  if (at !== -1) selected.at = at;
  if (isHeld && document.activeElement === document.body) holdItem(all[Math.min(selected.at, all.length - 1)]);
}

function restore(place: Place): void {
  const { selected: last, anchor, scrolled } = place;
  const all = items();
  const room = document.documentElement.scrollHeight - innerHeight;
  // Not all of the view is there yet.
  if (anchor ? all.length === 0 : room < scrolled) return;
  const first = all.find((item) => idOf(item) === anchor?.id);
  if (scrolled > 0 && anchor && first) scrollBy(0, first.getBoundingClientRect().top - anchor.top);
  else scrollTo(0, scrolled);
  if (framesLeft-- === 0) wanted = undefined;
  else requestAnimationFrame(() => wanted === place && restore(place));
  // An element that a view gives the focus to by itself keeps it.
  if (isHeld || !last || document.querySelector('main [data-first-focus]')) return;
  holdItem(all.find((item) => idOf(item) === last.id) ?? all[Math.min(last.at, all.length - 1)]);
}
