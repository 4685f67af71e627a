/** Whether an operation ended because the store failed: its outcome is unknown, and the daemon is ending. */
import { StoreFailed } from '../store/host-store.ts';

export function isStoreFailure(error: unknown): boolean {
  return error instanceof StoreFailed;
}
