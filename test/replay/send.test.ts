import { expect, it } from 'vitest'
import { promptOf, textOf } from '../../packages/replay/src/load/prompt.ts'
import { send } from '../../packages/replay/src/load/send.ts'
import { startFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { encode } from '../../packages/simulator/src/tokenizer.ts'

const request = { blocks: new Uint32Array([1, 2, 3, 4]), promptTokens: 150 } as Parameters<typeof promptOf>[0]

it('the text of a prompt has one token per id, and equal blocks have equal text', () => {
  const [one, other] = [1, 2].map((nonce) => promptOf(request, 64, nonce))
  expect(encode(textOf(one!))).toHaveLength(150)
  const shared = textOf(one!.slice(0, 128))
  expect(textOf(other!).startsWith(shared)).toBe(true)
  expect(textOf(one!)).not.toBe(textOf(other!))
  const ids = Array.from({ length: 20_000 }, (_, at) => 1_000 + at)
  expect(new Set(textOf(ids).trim().split(' ')).size).toBe(ids.length)
})

it('a chat has the prompt as text, and its second time finds the first in the cache', async () => {
  const fleet = await startFleet({ engines: 1, profile: 'instant', model: 'sim' })
  try {
    const prompt = promptOf(request, 64, 1)
    const target = { url: fleet.urls[0]!, model: 'sim', key: null, chats: true }
    const ask = () => send(target, { prompt, outputTokens: 3, session: null }, new AbortController().signal)
    expect(await ask()).toMatchObject({ problem: null, outputTokens: 3, cachedTokens: 0 })
    const second = await ask()
    expect(second.firstTokenAt).toBeGreaterThan(0)
    expect(second.cachedTokens).toBeGreaterThan(128)
    expect(fleet.engines[0]!.log.byPath.get('/v1/chat/completions')).toBe(2)
  } finally {
    await fleet.close()
  }
})
