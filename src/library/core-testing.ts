/** `poste/core/testing`: the relay without cleverness, and fast-check arbitraries. It needs `fast-check`, which npm does not bring with Poste. */
export { FIRST_EPOCH, anyCommand, anyHistory } from './any-command.ts';
export type { AnyCommandOptions, AskedCommand } from './any-command.ts';
export { anyEvent, eventOfType, keyedRow, publicKey, wholeNumber } from './arbitraries.ts';
export type { KeyedRow } from './arbitraries.ts';
export { NaiveModel } from './model.ts';
export type { ModelEnrolment, ModelItem, ModelPush } from './model-values.ts';
