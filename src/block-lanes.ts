/** Block hashes as 32-bit lanes, in Base64. */

/** Bytes per call: an argument each, and runtimes bound the number of arguments. */
const CHUNK = 8192

/** Base64 of little-endian 32-bit lanes. */
export function lanesToBase64({ buffer, byteOffset, byteLength }: Uint32Array): string {
  let text = ''
  for (let at = 0; at < byteLength; at += CHUNK)
    text += String.fromCharCode(...new Uint8Array(buffer, byteOffset + at, Math.min(CHUNK, byteLength - at)))
  return btoa(text)
}

/** Lanes of blocks, two per block; an incomplete block at the end is left out. Throws if the text is no base64. */
export function lanesFromBase64(text: string): Uint32Array {
  const units = atob(text)
  const bytes = new Uint8Array(units.length & ~7)
  for (let at = 0; at < bytes.length; at++) bytes[at] = units.charCodeAt(at)
  return new Uint32Array(bytes.buffer)
}
