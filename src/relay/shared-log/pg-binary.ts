/**
 * Arrays as PostgreSQL's binary format has them: `pg` sends a Buffer parameter as it is, so the bytes of a bytea[] go
 * without hex. Layout: number of dimensions i32, 0 i32, OID of the elements i32, length i32, lower bound i32 (1), then
 * each element: its length i32 and its bytes (PostgreSQL's array_send).
 */
const BYTEA = 17;
const INT8 = 20;
const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
const INT8_BYTES = 8;

export function byteaArray(values: readonly Buffer[]): Buffer {
  if (values.length === 0) return emptyArray(BYTEA);
  const bytes = values.reduce((sum, value) => sum + LENGTH_BYTES + value.length, HEADER_BYTES);
  const array = headed(bytes, BYTEA, values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(value.length, at);
    at += value.copy(array, at);
  }
  return array;
}

export function int8Array(values: readonly (number | bigint)[]): Buffer {
  if (values.length === 0) return emptyArray(INT8);
  const array = headed(HEADER_BYTES + values.length * (LENGTH_BYTES + INT8_BYTES), INT8, values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(INT8_BYTES, at);
    at = array.writeBigInt64BE(BigInt(value), at);
  }
  return array;
}

function headed(bytes: number, oid: number, length: number): Buffer {
  const array = Buffer.allocUnsafe(bytes);
  for (const [position, value] of [1, 0, oid, length, 1].entries()) array.writeInt32BE(value, position * 4);
  return array;
}

function emptyArray(oid: number): Buffer {
  const array = Buffer.alloc(12);
  array.writeInt32BE(oid, 8);
  return array;
}
