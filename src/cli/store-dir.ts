/** `--store-dir`, by which local commands find the running relay. */
import { resolve } from 'node:path';
import { Option } from 'commander';
import { ControlClient } from './control-client.ts';

export const STORE_DIR_DEFAULT = './poste-relay';

export interface StoreDirFlags {
  storeDir: string;
}

export function storeDirOption(): Option {
  return new Option('--store-dir <dir>', 'the store folder of the running relay').default(STORE_DIR_DEFAULT);
}

export function relayOf({ storeDir }: StoreDirFlags): ControlClient {
  return new ControlClient(resolve(storeDir));
}
