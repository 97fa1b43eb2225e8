/** Why npm or pip failed, from the end of their log: npm's code, pip's first error, or the last line. */
export function installFailure(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  const [, code] = /^npm error +code:? '?(E\w+)/m.exec(text) ?? []
  if (code !== undefined) return `npm reports ${code}`
  return /^ERROR: (.+)/m.exec(text)?.[1] ?? text.split('\n').at(-1) ?? text
}
