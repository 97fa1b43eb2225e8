/**
 * Works around a defect of V8 13.6 to 14.6 (Node 24 to 26): JSON.parse compares a name with the name that came next in
 * earlier documents before it decodes escapes. After `"\\\\u006dod"`, it reads `"\\u006dodel"` as that same name,
 * which no engine does. A name read wrongly always contains the backslash of the escape.
 */
export function hasBackslashKey(json: unknown): boolean {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return false
  for (const name in json) if (name.includes('\\')) return true
  return false
}
