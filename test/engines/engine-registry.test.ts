import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { Prompt } from '../../src/core/tokens/prompt.ts'
import {
  detectEngineType,
  ENGINE_TYPES,
  engineTypeOf,
  PRIVATE_HEADERS,
  type EngineEvidence,
} from '../../src/engines/engine-registry.ts'
import type { EngineTypeName } from '../../src/engines/engine-type.ts'
import { modelCards } from '../../src/engines/model-list.ts'

describe('the type of an engine', () => {
  it.each<[EngineTypeName, EngineEvidence]>([
    ['vllm', { metrics: '# HELP x\nvllm:num_requests_running 1\n' }],
    ['sglang', { metrics: 'sglang_num_running_reqs 1\n', owners: ['vllm'] }],
    ['tensorrt-llm', { owners: ['tensorrt_llm'], routes: { '/version': '{"version":"1.3.0"}' } }],
    ['llama.cpp', { owners: ['llamacpp'] }],
    ['llama.cpp', { server: 'llama.cpp' }],
    ['tgi', { owners: ['meta/model'], routes: { '/info': '{"model_id":"m","router":"text-generation-router"}' } }],
    ['ollama', { owners: ['library'], routes: { '/api/version': '{"version":"0.12.0"}' } }],
    ['ollama', { owners: ['someone'], routes: { '/api/version': '{"version":"0.12.0"}' } }],
    ['firstlight', { owners: ['firstlight'] }],
    ['sglang', { routes: { '/server_info': '{"dp_size":1,"version":"0.5.23"}' } }],
    ['vllm', { owners: ['acme'], routes: { '/version': '{"version":"0.33.0"}' } }],
    ['external', { configured: 'external', metrics: 'vllm:num_requests_running 1\n' }],
    ['unknown', { owners: ['acme'], server: 'nginx', metrics: '<html>vllm:x</html>' }],
    ['unknown', {}],
  ])('%s is recognised', (kind, evidence) => {
    expect(detectEngineType(evidence).name).toBe(kind)
  })

  it('the type of an engine has one file and one entry', () => {
    const names = readdirSync(new URL('../../src/engines', import.meta.url))
    for (const { name } of ENGINE_TYPES) expect(names).toContain(`${name.replace('.', '-')}.ts`)
    expect(new Set(ENGINE_TYPES.map(({ name }) => name)).size).toBe(ENGINE_TYPES.length)
  })

  it('the type of an engine imports nothing but the core and its own folder', () => {
    const folder = new URL('../../src/engines/', import.meta.url)
    for (const name of readdirSync(folder).filter((one) => one.endsWith('.ts')))
      for (const [, path] of readFileSync(new URL(name, folder), 'utf8').matchAll(/from '([^']+)'/g))
        expect(path).toMatch(/^(?:\.\/[\w-]+\.ts|\.\.\/core\/.+\.ts)$/)
  })
})

describe('an engine type', () => {
  it('an engine type adds nothing to requests for a provider', () => {
    expect(engineTypeOf('external').addable).toEqual([])
    expect(engineTypeOf('vllm').addable).toContain('kv_transfer_params')
  })

  it('an engine type knows the headers that clients must not set', () => {
    expect(PRIVATE_HEADERS.has('x-override-bootstrap-host')).toBe(true)
    expect(PRIVATE_HEADERS.has('x-vllm-priority')).toBe(true)
    for (const name of PRIVATE_HEADERS) expect(name).toBe(name.toLowerCase())
  })

  it('an engine type names adapters as the server does', () => {
    expect(engineTypeOf('vllm').adapters?.nameFor('m', 'sql')).toBe('sql')
    expect(engineTypeOf('sglang').adapters?.nameFor('m', 'sql')).toBe('m:sql')
  })

  it('an engine type is not probed if it is a provider, and SGLang is asked without running its model', () => {
    expect(engineTypeOf('external').health).toEqual([])
    expect(engineTypeOf('sglang').health.map(({ path, everyMs }) => [path, everyMs])).toEqual([
      ['/ready', null],
      ['/health', 30_000],
    ])
  })
})

describe('the version', () => {
  it.each<[EngineTypeName, string, string]>([
    ['vllm', '{"version":"0.32.0+cpu"}', '0.32.0+cpu'],
    ['llama.cpp', '{"build_info":"b10964-b29c606e2"}', 'b10964-b29c606e2'],
    ['tgi', '{"router":"text-generation-router","version":"3.3.6"}', '3.3.6'],
    ['ollama', '{"version":"0.12.0"}', '0.12.0'],
  ])('the version of %s is read', (kind, body, version) => {
    expect(engineTypeOf(kind).version?.pattern.exec(body)?.[1]).toBe(version)
  })
})

describe('the capacity', () => {
  const models = {
    data: [
      { id: 'm', root: '/models/m', parent: null, max_model_len: 4096, owned_by: 'vllm' },
      { id: 'sql', root: '/adapters/sql', parent: 'm', max_model_len: null },
    ],
  }

  it('the capacity is that of the model, and of the base model for an adapter', () => {
    const { read } = engineTypeOf('vllm').capacity!
    expect(read(models, 'm')).toEqual({ contextTokens: 4096, slots: null })
    expect(read(models, 'sql')).toEqual({ contextTokens: 4096, slots: null })
    expect(read(models, 'other')).toEqual({ contextTokens: null, slots: null })
    expect(read('<html>', 'm')).toEqual({ contextTokens: null, slots: null })
    expect(modelCards(models)?.map(({ id, parent }) => [id, parent])).toEqual([
      ['m', null],
      ['sql', 'm'],
    ])
  })

  it('of llama.cpp is the context of a slot, and the number of slots', () => {
    const props = { total_slots: 4, default_generation_settings: { n_ctx: 8192 } }
    expect(engineTypeOf('llama.cpp').capacity?.read(props, 'm')).toEqual({ contextTokens: 8192, slots: 4 })
  })

  it('the capacity of TGI is read from /info', () => {
    const info = { max_total_tokens: 2048, max_concurrent_requests: 128 }
    expect(engineTypeOf('tgi').capacity?.read(info, 'm')).toEqual({ contextTokens: 2048, slots: 128 })
  })
})

describe('token ids', () => {
  const texts: Prompt = { form: 'texts', texts: ['hello'], addSpecial: true }
  const chat: Prompt = {
    form: 'chat',
    messages: [
      { role: 'user', parts: ['hi'], extra: { tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }] } },
    ],
    tools: null,
    variables: { add_generation_prompt: true, enable_thinking: false },
    ownTemplate: false,
    addSpecial: false,
    items: 0,
  }
  const callsOf = (kind: EngineTypeName, prompt: Prompt): unknown =>
    engineTypeOf(kind)
      .tokenize!.calls(prompt, 'm')
      ?.map(({ path, body }) => [path, JSON.parse(body)])

  it('token ids are requested from vLLM for texts and chats', () => {
    expect(callsOf('vllm', texts)).toEqual([['/tokenize', { model: 'm', prompt: 'hello', add_special_tokens: true }]])
    expect(callsOf('vllm', chat)).toEqual([
      [
        '/tokenize',
        {
          model: 'm',
          messages: [{ role: 'user', content: 'hi', tool_calls: [{ function: { name: 'f', arguments: '{"a":1}' } }] }],
          add_generation_prompt: true,
          add_special_tokens: false,
          chat_template_kwargs: { enable_thinking: false },
        },
      ],
    ])
  })

  it('token ids are requested from llama.cpp and TGI in their forms', () => {
    expect(callsOf('llama.cpp', texts)).toEqual([['/tokenize', { content: 'hello', add_special: true }]])
    expect(callsOf('llama.cpp', chat)).toBeUndefined()
    expect(callsOf('tgi', texts)).toEqual([['/tokenize', { inputs: 'hello', add_special_tokens: true }]])
    expect(callsOf('tgi', chat)).toMatchObject([['/chat_tokenize', { model: 'm', messages: [{ role: 'user' }] }]])
  })

  it('token ids are not requested for images, own templates and many texts', () => {
    for (const prompt of [
      { ...chat, items: 1 },
      { ...chat, ownTemplate: true },
      { ...texts, texts: Array(5).fill('a') },
    ])
      expect(callsOf('vllm', prompt as Prompt)).toBeUndefined()
  })

  it('token ids are read from the answer', () => {
    const idsOf = (kind: EngineTypeName, json: unknown): unknown => engineTypeOf(kind).tokenize!.ids(json)
    expect(idsOf('vllm', { tokens: [1, 2], count: 2 })).toEqual(Uint32Array.of(1, 2))
    expect(idsOf('tgi', [{ id: 3, text: 'a' }])).toEqual(Uint32Array.of(3))
    expect(idsOf('tgi', { tokenize_response: [{ id: 4 }], templated_text: 'a' })).toEqual(Uint32Array.of(4))
    for (const json of [null, [], { tokens: [-1] }, { tokens: ['a'] }, 'x']) expect(idsOf('vllm', json)).toBeNull()
  })

  it('token ids become text again', () => {
    const { detokenize } = engineTypeOf('vllm').tokenize!
    expect(JSON.parse(detokenize!.body([1, 2], 'm'))).toEqual({ model: 'm', tokens: [1, 2] })
    expect(detokenize!.text({ prompt: 'hi' })).toBe('hi')
    expect(detokenize!.text({ error: 'x' })).toBeNull()
  })
})
