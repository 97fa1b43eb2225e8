/**
 * Encodes `text` as UTF-8 at the start of `into`, lone surrogates as U+FFFD. Returns the bytes written. As
 * `TextEncoder.encodeInto`.
 */
export type EncodeUtf8 = (text: string, into: Uint8Array) => number

/** UTF-8 of a short text, lone surrogates as U+FFFD. For other texts `EncodeUtf8` is faster. */
export function utf8Of(text: string): Uint8Array {
  const bytes: number[] = []
  for (const char of text) {
    const code = char.codePointAt(0) as number
    if (code < 0x80) bytes.push(code)
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 0x3f))
    else if (code >= 0xd800 && code <= 0xdfff) bytes.push(0xef, 0xbf, 0xbd)
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f))
    else {
      bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 0x3f), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f))
    }
  }
  return Uint8Array.from(bytes)
}

/** UTF-8 bytes of the character that starts with `lead`. 1 for a byte inside a character. */
export function widthOf(lead: number): number {
  if (lead < 0xc0) return 1
  if (lead < 0xe0) return 2
  return lead < 0xf0 ? 3 : 4
}

/** Code point of the UTF-8 character at `at`. */
export function codeAt(bytes: Uint8Array, at: number): number {
  const lead = bytes[at] as number
  if (lead < 0x80) return lead
  const second = (bytes[at + 1] as number) & 0x3f
  if (lead < 0xe0) return ((lead & 0x1f) << 6) | second
  const third = (bytes[at + 2] as number) & 0x3f
  if (lead < 0xf0) return ((lead & 0x0f) << 12) | (second << 6) | third
  return ((lead & 0x07) << 18) | (second << 12) | (third << 6) | ((bytes[at + 3] as number) & 0x3f)
}
