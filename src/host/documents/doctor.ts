/** What a look at everything of the host found. */
import { type Static, Type } from 'typebox';
import { CHECK_AREAS, CHECK_IDS, CHECK_STATES } from '../core/doctor/check.ts';

export const CheckDocument = Type.Object({
  area: Type.Enum([...CHECK_AREAS]),
  id: Type.Enum([...CHECK_IDS]),
  about: Type.Union([Type.String(), Type.Null()]),
  state: Type.Enum([...CHECK_STATES]),
  sentence: Type.String(),
  command: Type.Union([Type.String(), Type.Null()]),
});

/** As the daemon sees it; the command adds what it sees itself. */
export const DoctorResult = Type.Object({
  host: Type.String(),
  fingerprint: Type.String(),
  version: Type.String(),
  pid: Type.Integer(),
  checks: Type.Array(CheckDocument),
});
export type DoctorResult = Static<typeof DoctorResult>;
