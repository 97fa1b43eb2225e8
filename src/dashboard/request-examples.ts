/** Example requests that users paste. */

/** Formats a request for a shell. A quote inside single quotes ends them, is escaped, and reopens them. */
export function curlOf(base: string, model: string): string {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] })
  return `curl -N ${base}/chat/completions -H 'content-type: application/json' -d '${body.replaceAll("'", "'\\''")}'`
}

/** A JSON string is a literal in Python and JavaScript, too. */
export function pythonOf(base: string, model: string): string {
  return `from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(base)}, api_key="KEY")
stream = client.chat.completions.create(
    model=${JSON.stringify(model)},
    messages=[{"role": "user", "content": "Hello"}],
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`
}

export function scriptOf(base: string, model: string): string {
  return `import OpenAI from 'openai'

const client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: 'KEY' })
const stream = await client.chat.completions.create({
  model: ${JSON.stringify(model)},
  messages: [{ role: 'user', content: 'Hello' }],
  stream: true,
})
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '')`
}
