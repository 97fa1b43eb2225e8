import { describe, expect, it } from 'vitest'
import { compileTemplate } from '../src/chat-template.ts'
import { familyJson, openTokenizer } from './core/tokens/families.ts'
import { analyzerOf, pairs, promptOf, requestOf } from './core/tokens/support.ts'

const chatml = `{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}`

function render(template: string, body: unknown, protocol = 'chat'): string {
  const prompt = promptOf(protocol, body)
  return prompt.form === 'chat' ? compileTemplate(template, { bos_token: '<s>' })(prompt) : prompt.form
}

const user = (content: unknown): unknown => ({ messages: [{ role: 'user', content }] })

describe('chat templates', () => {
  it('read special tokens, tools and the variables of the request', () => {
    const template = `{{ bos_token }}{{ tools | length }}{{ enable_thinking }}{% for m in messages %}{{ m.content }}{% endfor %}`
    const body = {
      ...(user('hi') as object),
      tools: [{ type: 'function', function: { name: 'f' } }],
      chat_template_kwargs: { enable_thinking: false },
    }
    expect(render(template, body)).toBe('<s>1falsehi')
  })

  it('read content as one string, or as parts if they iterate over it', () => {
    const walks = `{% for m in messages %}{% for part in m.content %}[{{ part.text }}]{% endfor %}{% endfor %}`
    const parts = [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ]
    expect(render(walks, user(parts))).toBe('[a][b]')
    expect(render(walks, user('whole'))).toBe('[whole]')
    expect(render(chatml, user(parts))).toContain('a\nb')
  })

  it('chat templates read arguments of tool calls as objects', () => {
    const template = `{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}`
    const body = {
      messages: [
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ type: 'function', function: { name: 'f', arguments: '{"a":[1,"ü"]}' } }],
        },
      ],
    }
    expect(render(template, body)).toBe('{"a": [1, "ü"]}')
  })

  it('chat templates leave the last message open if it is to be continued', () => {
    const body = {
      messages: [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: 'so far ' },
      ],
      continue_final_message: true,
      add_generation_prompt: false,
    }
    expect(render(chatml, body)).toBe('<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nso far ')
  })

  it('chat templates reject continuing a message that the template does not print last', () => {
    const buried = `{% for m in messages %}{{ m.content }}{% endfor %}${'.'.repeat(65)}`
    const body = { messages: [{ role: 'assistant', content: 'so far' }], continue_final_message: true }
    expect(() => render(buried, body)).toThrow('not at the end')
    expect(render(buried.slice(0, -1), body)).toBe('so far')
    // The template does not print the message unchanged, and the text is one repeated letter: a search at every
    // position would take quadratic time.
    const changed = `{% for m in messages %}{{ m.content | replace('b', 'c') }}{% endfor %}`
    const long = {
      messages: [
        { role: 'user', content: 'a'.repeat(1_000_000) },
        { role: 'assistant', content: `${'a'.repeat(500_000)}b` },
      ],
      continue_final_message: true,
    }
    expect(() => render(changed, long)).toThrow('not at the end')
  })

  it('chat templates render at most 4,096 messages or parts', () => {
    const parts = (count: number): unknown => Array.from({ length: count }, () => ({ type: 'text', text: 'a' }))
    const chat = (count: number, last: unknown): unknown => ({
      messages: [
        ...Array.from({ length: count - 1 }, () => ({ role: 'user', content: 'a' })),
        { role: 'user', content: last },
      ],
    })
    expect(render(chatml, chat(4096, 'a')).length).toBe(
      4096 * '<|im_start|>user\na<|im_end|>\n'.length + '<|im_start|>assistant\n'.length,
    )
    for (const body of [chat(4097, 'a'), chat(4096, parts(2)), chat(1, parts(4097))])
      expect(() => render(chatml, body)).toThrow('more than 4096 messages or parts')
    expect(render(chatml, chat(1, parts(4096))).length).toBeGreaterThan(4096)
  })

  it('parse at most 1 MB and 100,000 pieces of arguments, and leave invalid JSON unchanged', () => {
    const printed = `{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | length }},{% endfor %}{% endfor %}`
    const call = (args: string): unknown => ({ type: 'function', function: { name: 'f', arguments: args } })
    const contextOf = (...calls: unknown[]): unknown => ({
      messages: calls.map((one) => ({ role: 'assistant', tool_calls: [one] })),
    })
    const half = JSON.stringify(['a'.repeat(522_000)])
    expect(render(printed, contextOf(call(half), call(half), call('{"a"')))).toBe('1,1,4,')
    expect(() => render(printed, contextOf(call(half), call(half), call(half)))).toThrow('more than 1 MB')
    const fragments = JSON.stringify(Array.from({ length: 5_000 }, () => ({ a: 1 })))
    expect(render(printed, contextOf(call(fragments)))).toBe('5000,')
    expect(() => render(printed, contextOf(call(fragments), call(fragments), call(fragments)))).toThrow(
      '100,000 pieces',
    )
  })

  it('chat templates render Responses and Messages requests as the equivalent chat', () => {
    const chat = {
      messages: [
        { role: 'system', content: 'be kind' },
        { role: 'user', content: 'hi' },
      ],
    }
    expect(render(chatml, { instructions: 'be kind', input: 'hi' }, 'responses')).toBe(render(chatml, chat))
    expect(
      render(
        chatml,
        { system: [{ type: 'text', text: 'be kind' }], messages: [{ role: 'user', content: 'hi' }] },
        'messages',
      ),
    ).toBe(render(chatml, chat))
  })

  it('chat templates convert tool calls and results of every API into the same messages', () => {
    const roles = `{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %};{% endfor %}`
    const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"x":1}' } }
    const chat = {
      messages: [
        { role: 'user', content: 'go' },
        { role: 'assistant', tool_calls: [call] },
        { role: 'tool', tool_call_id: 'c1', content: 'ok' },
      ],
    }
    const messages = {
      messages: [
        { role: 'user', content: 'go' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'f', input: { x: 1 } }] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'ok' }] }],
        },
      ],
    }
    const responses = {
      input: [
        { role: 'user', content: 'go' },
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"x":1}' },
        { type: 'function_call_output', call_id: 'c1', output: 'ok' },
      ],
    }
    expect(render(roles, chat)).toBe('user:go;assistant:f{"x": 1};tool:ok;')
    expect(render(roles, messages, 'messages')).toBe(render(roles, chat))
    expect(render(roles, responses, 'responses')).toBe(render(roles, chat))
  })
})

describe('a pool with a vocabulary', () => {
  const tokenizer = openTokenizer(familyJson('llama3'))
  const exact = analyzerOf({ tokenizer, template: compileTemplate(chatml, {}) })

  it('a pool with a vocabulary counts texts with the start and end tokens the engine adds, and chats without', () => {
    const text = exact.measure(requestOf('completions', { prompt: 'hi' }, { withIds: true }))
    expect(text).toMatchObject({ tokenSource: 'exact', inexact: null, promptBytes: null })
    expect([text.ids?.[0], text.ids?.at(-1)]).toEqual([0, 2])
    const chat = exact.measure(requestOf('chat', user('hi'), { withIds: true }))
    expect([chat.ids?.[0], chat.ids?.at(-1)]).not.toEqual([0, 2])
  })

  it('a pool with a vocabulary falls back to bytes with a reason if it cannot count tokens', () => {
    const own = exact.measure(requestOf('chat', { ...(user('hi') as object), chat_template: 'x' }))
    expect(own).toMatchObject({ tokenSource: 'bytes', inexact: 'the request brings its own chat template' })
    const bare = analyzerOf({ tokenizer }).measure(requestOf('chat', user('hi')))
    expect(bare).toMatchObject({ tokenSource: 'bytes', inexact: 'the vocabulary has no chat template' })
    const refusing = analyzerOf({ tokenizer, template: compileTemplate(`{{ raise_exception('no such role') }}`, {}) })
    expect(refusing.measure(requestOf('chat', user('hi')))).toMatchObject({
      tokenSource: 'bytes',
      inexact: 'no such role',
    })
    const endless = exact.measure(requestOf('completions', { prompt: 'a'.repeat(1_100_000) }))
    expect(endless.tokenSource).toBe('bytes')
    expect(endless.inexact).toContain('without a split')
    const batch = exact.measure(
      requestOf('completions', { prompt: Array.from({ length: 5 }, () => 'a b '.repeat(250_000)) }),
    )
    expect(batch).toMatchObject({ tokenSource: 'bytes', inexact: 'the prompt has more than 4194304 characters' })
  })

  it('a pool with a vocabulary renders no prompt that certainly exceeds the limit', () => {
    let renderings = 0
    const counting = analyzerOf({ tokenizer, template: () => String(renderings++) })
    const long = '"'.repeat(5_000_000)
    const tools = [
      { type: 'function', function: { name: 'f', parameters: { properties: { a: { description: long } } } } },
    ]
    for (const body of [{ ...(user('hi') as object), tools }, user(long), user([{ type: 'text', text: long }])]) {
      const measured = counting.measure(requestOf('chat', body, { bodyBytes: 10_000_000 }))
      expect(measured).toMatchObject({ tokenSource: 'bytes', inexact: 'the prompt has more than 4194304 characters' })
      expect(measured.promptBytes).toBeGreaterThan(5_000_000)
    }
    expect(renderings).toBe(0)
    counting.measure(
      requestOf('chat', user([{ type: 'image_url', image_url: { url: long } }]), { bodyBytes: 10_000_000 }),
    )
    expect(renderings).toBe(1)
    const thought = { role: 'assistant', content: 'so', reasoning: '"'.repeat(3_000_000) }
    expect(counting.measure(requestOf('chat', { messages: [thought] }, { bodyBytes: 10_000_000 })).tokenSource).toBe(
      'exact',
    )
    expect(
      counting.measure(requestOf('chat', { messages: [thought, thought] }, { bodyBytes: 10_000_000 })).tokenSource,
    ).toBe('bytes')
    expect(renderings).toBe(2)
  })

  it('a pool with a vocabulary keeps its blocks when a conversation grows', () => {
    const turns = ['tell me a story '.repeat(20), 'once upon a time '.repeat(30), 'go on', 'and then '.repeat(30)]
    const body = (count: number): unknown => ({
      messages: turns.slice(0, count).map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content })),
    })
    const before = pairs(exact.measure(requestOf('chat', body(3))).blocks)
    const after = pairs(exact.measure(requestOf('chat', body(4))).blocks)
    expect(before.length).toBeGreaterThan(10)
    expect(after.slice(0, before.length - 1)).toEqual(before.slice(0, -1))
  })

  it('a pool with a vocabulary never shares blocks with a pool that measures in bytes', () => {
    const prompt = 'the same prompt '.repeat(30)
    const bytes = new Set(pairs(analyzerOf().measure(requestOf('completions', { prompt })).blocks))
    expect(pairs(exact.measure(requestOf('completions', { prompt })).blocks).some((hash) => bytes.has(hash))).toBe(
      false,
    )
  })
})
