/** A request to paste into a shell: a quote inside single quotes ends them, stands for itself, and opens them again. */
export function curlOf(base: string, model: string): string {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] })
  return `curl -N ${base}/chat/completions -H 'content-type: application/json' -d '${body.replaceAll("'", "'\\''")}'`
}
