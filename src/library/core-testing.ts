/** `poste/core/testing`: a naive relay and arbitraries. It needs `fast-check`, which does not come with Poste. */
export { FIRST_EPOCH, anyCommand, anyHistory } from './any-command.ts';
export type { AnyCommandOptions, AskedCommand } from './any-command.ts';
export { anyEvent, eventOfType, keyedRow, publicKey, wholeNumber } from './arbitraries.ts';
export type { KeyedRow } from './arbitraries.ts';
export { NaiveModel } from './model.ts';
export type { ModelEnrolment, ModelItem, ModelPush } from './model-values.ts';
