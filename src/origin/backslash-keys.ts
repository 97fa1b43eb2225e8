/**
 * The V8 of Node 24 to 26 (13.6 to 14.6) compares a name with the one that came next in earlier documents before it
 * decodes it: after
 * `"\\\\u006dod"`, `"\\u006dodel"` is that again, to us and to no engine. What comes of it always holds the backslash
 * of the escape.
 */
export function hasBackslashKey(json: unknown): boolean {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return false
  for (const name in json) if (name.includes('\\')) return true
  return false
}
