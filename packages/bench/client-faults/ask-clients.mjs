// Asks through one client for JavaScript and prints what it saw of each case: `node ask-clients.mjs CLIENT URL KEY CASES`.
// Copied beside the installed packages, so that it finds them.
const [client, url, key, cases] = process.argv.slice(2)
const model = 'm'
const maxTokens = 100

const messageBody = (content) => ({ model, max_tokens: maxTokens, messages: [{ role: 'user', content }] })

const clients = {
  async 'openai-js'() {
    const { default: OpenAI } = await import('openai')
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, timeout: 20_000 })
    return {
      async chat(content, stream) {
        const answer = await openai.chat.completions.create({ model, messages: [{ role: 'user', content }], stream })
        if (!stream) return answer.choices[0].message.content
        let text = ''
        for await (const event of answer) text += event.choices[0]?.delta.content ?? ''
        return text
      },
      async responses(input, stream) {
        const answer = await openai.responses.create({ model, input, stream })
        if (!stream) return answer.output_text
        let text = ''
        for await (const event of answer) if (event.type === 'response.output_text.delta') text += event.delta
        return text
      },
    }
  },
  async 'anthropic-js'() {
    const { default: Anthropic } = await import('@anthropic-ai/sdk')
    const anthropic = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0, timeout: 20_000 })
    return {
      async messages(content, stream) {
        const answer = await anthropic.messages.create({ ...messageBody(content), stream })
        if (!stream) return answer.content[0].text
        let text = ''
        for await (const event of answer) if (event.type === 'content_block_delta') text += event.delta.text
        return text
      },
      'messages (stream helper)': async (content, stream) =>
        stream ? anthropic.messages.stream(messageBody(content)).finalText() : null,
    }
  },
  async 'ai-sdk'() {
    const { generateText, streamText } = await import('ai')
    const { createOpenAI } = await import('@ai-sdk/openai')
    const { createAnthropic } = await import('@ai-sdk/anthropic')
    const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key })
    const anthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey: key })
    const ask = (of) => async (prompt, stream) => {
      const settings = { model: of(model), prompt, maxRetries: 0, maxOutputTokens: maxTokens }
      if (!stream) return (await generateText(settings)).text
      let text = ''
      const result = streamText({ ...settings, onError: () => {} })
      for await (const part of result.fullStream) {
        if (part.type === 'error') throw part.error
        if (part.type === 'text-delta') text += part.text
      }
      return text
    }
    return { chat: ask(openai.chat), responses: ask(openai.responses), messages: ask(anthropic) }
  },
}

const protocols = await clients[client]()
const seen = []
for (const { fault, prompt, stream } of JSON.parse(cases))
  for (const [protocol, ask] of Object.entries(protocols)) {
    const one = { protocol, fault }
    try {
      const text = await ask(prompt, stream)
      if (text !== null) seen.push({ ...one, raised: null, text })
    } catch (error) {
      seen.push({ ...one, raised: error.name === 'Error' ? error.constructor.name : error.name, ...headOf(error) })
    }
  }
console.log(JSON.stringify(seen))
process.exit(0)

function headOf(error) {
  const status = error.status ?? error.statusCode ?? null
  const headers = new Headers(error.responseHeaders ?? error.headers ?? {})
  return { status: typeof status === 'number' ? status : null, retryAfter: headers.get('retry-after') }
}
