import { expect, it } from 'vitest'
import { renderPrompt } from '../../../packages/bench/field-agents/rendered-prompt.ts'

const system = (cch: string) => [
  { type: 'text', text: `x-anthropic-billing-header: cc_version=2; cch=${cch};` },
  { type: 'text', text: 'Rules.' },
]
const user = { role: 'user', content: [{ type: 'text', text: 'Hello' }] }

it('a rendered prompt leaves out the billing block of messages, as vLLM does', () => {
  const [one, other] = ['1', '2'].map((cch) => renderPrompt('/v1/messages', { system: system(cch), messages: [user] }))
  expect(one).toBe(other)
  expect(one).toContain('<|im_start|>system\nRules.')
})

it('moves system messages to the front, and results of tools before the text beside them', () => {
  const call = { type: 'tool_use', id: 'c', name: 'Read', input: { path: 'x' } }
  const result = { type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'FOUND' }] }
  const text = renderPrompt('/v1/messages', {
    system: 'Rules.',
    messages: [
      user,
      { role: 'assistant', content: [call] },
      { role: 'user', content: [{ type: 'text', text: 'AFTER' }, result] },
      { role: 'system', content: 'LATE' },
    ],
  })
  const places = ['Rules.', 'LATE', 'Hello', '"name": "Read"', 'FOUND', 'AFTER'].map((word) => text.indexOf(word))
  expect(places).toEqual([...places].sort((a, b) => a - b))
  expect(places).not.toContain(-1)
})

it('a rendered prompt has the calls and results of responses', () => {
  const text = renderPrompt('/v1/responses', {
    instructions: 'Rules.',
    input: [
      { role: 'user', content: [{ type: 'input_text', text: 'Hello' }] },
      { type: 'function_call', call_id: 'c', name: 'exec', arguments: '{"cmd":"ls"}' },
      { type: 'function_call_output', call_id: 'c', output: 'FOUND' },
    ],
  })
  expect(text).toMatch(/Rules\.[^]*Hello[^]*"name": "exec"[^]*<tool_response>\nFOUND/)
})
