import { describe, expect, it } from 'vitest'
import type { ChatPrompt } from '../../src/core/tokens/chat.ts'
import { allBounds, endpointOf, endpoints, protocolOf, protocols } from '../../src/protocols/protocols.ts'

const promptOf = (path: string, body: Record<string, unknown>) => protocolOf(path)!.prompt(body)

describe('the table of protocols', () => {
  it('the table of protocols has each path and each name once', () => {
    expect(new Set(endpoints.map(({ path }) => path)).size).toBe(endpoints.length)
    expect(new Set(protocols.map(({ name }) => name)).size).toBe(protocols.length)
  })

  it('the table of protocols finds the protocol of a path with a query, and of one below an endpoint', () => {
    expect(protocolOf('/v1/messages?beta=true')?.name).toBe('messages')
    expect(protocolOf('/v1/messages/batches')?.name).toBe('messages')
    expect(protocolOf('/v1/responses/resp_1/cancel')?.name).toBe('responses')
    expect(protocolOf('/v1/messagesx')).toBeUndefined()
    expect(endpointOf('/v1/messages/batches')).toBeUndefined()
    expect(protocolOf('/inference/v1/generate')?.name).toBe('generate')
  })

  it('the table of protocols has a grammar for each endpoint that streams', () => {
    for (const { streams, protocol } of endpoints) if (streams) expect(protocol.stream).not.toBeNull()
  })

  it('the table of protocols knows all fields that bound output', () => {
    expect(allBounds).toEqual(expect.arrayContaining(['max_tokens', 'max_completion_tokens', 'max_output_tokens']))
  })
})

const user = { role: 'user', content: 'hello' }
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }

describe('prompts', () => {
  const billing = (cch: string) => ({
    type: 'text',
    text: `x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=${cch};`,
  })
  const rules = { type: 'text', text: 'S1 rules' }

  it('S2: of messages leave out the billing block', () => {
    const chats = [[billing('00001'), rules], [billing('00002'), rules], [rules]].map((system) =>
      promptOf('/v1/messages', { system, messages: [user] }),
    )
    expect(chats[1]).toEqual(chats[0])
    expect(chats[2]).toEqual(chats[0])
  })

  it('prompts of messages have system messages in front, as engines move them there', () => {
    const body = {
      system: 'a',
      messages: [user, { role: 'system', content: 'b' }, { role: 'assistant', content: 'c' }],
    }
    const hoisted = promptOf('/v1/messages', body) as ChatPrompt
    expect(hoisted.messages.map(({ role, parts }) => [role, ...parts])).toEqual([
      ['system', 'a\n\nb'],
      ['user', 'hello'],
      ['assistant', 'c'],
    ])
  })

  it('of messages have thinking as reasoning, and no encrypted thinking', () => {
    const content = [
      { type: 'thinking', thinking: 't', signature: 's' },
      { type: 'redacted_thinking', data: 'x' },
      { type: 'text', text: 'a' },
    ]
    const chat = promptOf('/v1/messages', { messages: [{ role: 'assistant', content }] }) as ChatPrompt
    expect(chat.items).toBe(0)
    expect(chat.messages[0]).toEqual({
      role: 'assistant',
      parts: ['a'],
      extra: { reasoning: 't', reasoning_content: 't' },
    })
  })

  it('prompts of token-in requests are the ids as they are (S27)', () => {
    expect(promptOf('/inference/v1/generate', { token_ids: [5, 6] })).toEqual({ form: 'ids', lists: [[5, 6]] })
  })
})

describe('members with the prompt', () => {
  const named = protocols.filter(({ promptFields: { texts, ids } }) => texts.length + ids.length > 0)
  /** A member as a text, and as messages. */
  const shapesOf = (text: string) => [text, [{ role: 'user', content: text }]]

  it.each(named.map((protocol) => [protocol.name, protocol] as const))(
    'members with the prompt of %s are read as such',
    (_, protocol) => {
      const { texts, ids } = protocol.promptFields
      // Instructions alone are no prompt.
      const rest = { system: { messages: [user] }, instructions: { input: 'hi' } }
      for (const field of texts) {
        const shown = shapesOf('S1 text').map((value) =>
          protocol.prompt({ ...rest[field as keyof typeof rest], [field]: value }),
        )
        expect(JSON.stringify(shown), field).toContain('S1 text')
      }
      for (const field of ids) expect(protocol.prompt({ [field]: [1, 2, 3] })).toMatchObject({ lists: [[1, 2, 3]] })
    },
  )

  it.each(protocols.map((protocol) => [protocol.name, protocol] as const))(
    'members with the prompt of %s are all named',
    (_, protocol) => {
      const { texts } = protocol.promptFields
      const candidates = ['messages', 'prompt', 'input', 'instructions', 'system']
      for (const field of candidates) {
        const others = { messages: [user], input: 'hi', prompt: 'hi' }
        const shown = shapesOf('S1 text').map((value) => protocol.prompt({ ...others, [field]: value }))
        if (JSON.stringify(shown).includes('S1 text')) expect(texts).toContain(field)
      }
    },
  )

  it('members with the prompt are known for each protocol that generates text', () => {
    const generating = protocols.filter(({ splitting }) => splitting !== null)
    expect(generating.filter((protocol) => !named.includes(protocol)).map(({ name }) => name)).toEqual([])
  })
})

describe('limits of output', () => {
  it.each<[string, Record<string, unknown>, number | null]>([
    ['/v1/chat/completions', { max_tokens: 5, max_completion_tokens: 7 }, 7],
    ['/v1/chat/completions', {}, null],
    ['/v1/completions', {}, 16],
    ['/v1/completions', { max_tokens: null }, null],
    ['/v1/responses', { max_output_tokens: 9, max_tokens: 1 }, 9],
    ['/v1/messages', { max_tokens: 32000 }, 32000],
    ['/inference/v1/generate', { sampling_params: { max_tokens: 3 } }, 3],
    ['/v1/embeddings', {}, 0],
  ])('%s %j: %s', (path, body, limit) => {
    expect(protocolOf(path)!.bounds.limit(body)).toBe(limit)
  })

  it('limits of output are per answer, of which n and several prompts make more', () => {
    expect(protocolOf('/v1/completions')!.bounds.sequences({ n: 2, prompt: ['a', 'b'] })).toBe(4)
    expect(protocolOf('/v1/messages')!.bounds.sequences({ n: 2 })).toBe(1)
  })
})

describe('the prefill leg', () => {
  const edit = (path: string, body: Record<string, unknown>) => protocolOf(path)!.splitting!.prefillEdit(body)

  it('S3: of a chat demands no tool call', () => {
    const required = edit('/v1/chat/completions', {
      tools: [tool],
      tool_choice: 'required',
      max_tokens: 200,
      stream: true,
    })
    expect(required.set).toEqual({ tool_choice: '"auto"', max_tokens: '1', stream: 'false' })
    const namedTool = { type: 'function', function: { name: 'f' } }
    expect(edit('/v1/chat/completions', { tool_choice: namedTool }).set['tool_choice']).toBe('"auto"')
    expect(edit('/v1/chat/completions', { tool_choice: 'none' }).set['tool_choice']).toBeUndefined()
  })

  it('S3: of responses and messages demands no tool call', () => {
    expect(edit('/v1/responses', { tool_choice: 'required' }).set).toEqual({
      tool_choice: '"auto"',
      max_output_tokens: '1',
      store: 'false',
    })
    expect(edit('/v1/messages', { tool_choice: { type: 'any' }, max_tokens: 9 }).set).toEqual({
      tool_choice: '{"type":"auto"}',
      max_tokens: '1',
    })
  })

  it('the prefill leg has no structured output, and keeps what forms the prompt', () => {
    expect(edit('/v1/chat/completions', {}).remove).toEqual(
      expect.arrayContaining(['response_format', 'structured_outputs', 'min_tokens', 'stream_options', 'n']),
    )
    expect(edit('/v1/responses', { text: { format: { type: 'json_schema' }, verbosity: 'low' } }).set['text']).toBe(
      '{"verbosity":"low"}',
    )
    expect(edit('/v1/messages', { output_config: { format: {}, effort: 'low' } }).set['output_config']).toBe(
      '{"effort":"low"}',
    )
    for (const name of ['tools', 'messages', 'chat_template_kwargs', 'cache_salt', 'thinking'])
      expect(edit('/v1/messages', {}).remove).not.toContain(name)
  })

  it('the prefill leg of a token-in request changes its sampling parameters', () => {
    const body = { token_ids: [1], sampling_params: { max_tokens: 9, min_tokens: 3, temperature: 0 }, stream: true }
    expect(edit('/inference/v1/generate', body).set).toEqual({
      sampling_params: '{"max_tokens":1,"temperature":0}',
      stream: 'false',
    })
  })

  it('the prefill leg is refused for several answers, and for thinking budgets that no connector exempts', () => {
    const { unsplittable } = protocolOf('/v1/messages')!.splitting!
    expect(unsplittable({ thinking: { type: 'enabled' } }, false)).not.toBeNull()
    expect(unsplittable({ thinking: { type: 'enabled' } }, true)).toBeNull()
    expect(protocolOf('/v1/chat/completions')!.splitting!.unsplittable({ n: 2 }, true)).toBe('n is more than 1')
    expect(protocolOf('/v1/embeddings')!.splitting).toBeNull()
  })
})
