const utf8 = new TextEncoder()

/** Computes SHA-256 as 64 lower-case hexadecimal digits. */
export async function sha256(secret: string): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', utf8.encode(secret))
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
