/** How many bytes requests and pages under way may hold in memory, all together. What is small has room of its own. */
export interface HeldBytes {
  /** Request bodies of hosts. */
  bodies: number;
  /** Bodies of up to 64 KiB. */
  smallBodies: number;
  /** Pages that are being sent. */
  pages: number;
  /** Pages of up to 64 KiB of wire bytes. */
  smallPages: number;
}

export const HELD_BYTES: HeldBytes = {
  bodies: 56 << 20,
  smallBodies: 8 << 20,
  pages: 112 << 20,
  smallPages: 16 << 20,
};
