/** Formats a request for a shell. A quote inside single quotes ends them, is escaped, and reopens them. */
export function curlOf(base: string, model: string): string {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] })
  return `curl -N ${base}/chat/completions -H 'content-type: application/json' -d '${body.replaceAll("'", "'\\''")}'`
}
