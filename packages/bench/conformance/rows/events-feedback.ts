/** Cached tokens predicted from the engine's own KV events, through the bridge. */
import { startBridge } from '../bridge.ts'
import type { RunningBridge } from '../bridge.ts'
import { servedModel } from '../engine.ts'
import { generator } from '../fuzz.ts'
import type { GatewayKind, RunningGateway } from '../gateway.ts'
import { check } from '../row.ts'
import type { Row } from '../row.ts'
import { askStream } from './ask-stream.ts'
import { digestEngineOf } from './decisions.ts'

const blockTokens = 32
const conversations = 6
const turns = 6

/** On Workers there is no vocabulary here, so conversations are only token ids. */
export function eventsFeedback(kind: GatewayKind): Row {
  const asks = conversations * turns * (kind === 'node' ? 2 : 1)
  return {
    name: `${kind}-events-feedback`,
    says:
      `With KV events, the gateway predicts the cached tokens of ${asks} requests exactly: conversations as token ` +
      `ids${kind === 'node' ? ' and as chats' : ''}, half of them with a cache_salt, in a cache too small for them.`,
    run: async (lab) => {
      await lab.engine('little')
      const gateway = await lab.gateway(kind, 'little')
      const bridge = await startBridge(lab, gateway, 'little')
      try {
        return await converse(gateway, bridge)
      } finally {
        await bridge.stop()
      }
    },
  }
}

interface CachedTokens {
  readonly predicted: number
  readonly cached: number
}

async function converse(gateway: RunningGateway, bridge: RunningBridge): Promise<string> {
  const random = generator(11 + Math.floor(Date.now() / 1000))
  const token = () => 10 + Math.floor(random() * 1900)
  const words = () => Array.from({ length: 60 }, () => Math.floor(random() * 1e6).toString(36)).join(' ')
  const before = (await bridge.status()).engines[0]!
  check(before.complete, `the bridge does not know the whole cache: ${JSON.stringify(before)}`)
  const ids: number[][] = Array.from({ length: conversations }, () => [])
  const chats: { role: string; content: string }[][] = Array.from({ length: conversations }, () => [])
  const seen: CachedTokens[] = []
  const ask = async (path: '/v1/completions' | '/v1/chat/completions', body: object, one: number): Promise<string> => {
    const salt = one % 2 === 0 ? {} : { cache_salt: `tenant-${one}` }
    const { cached, decision, text } = await askStream(gateway, {
      path,
      body: { model: servedModel, max_tokens: 24, temperature: 0, ignore_eos: true, ...salt, ...body },
    })
    seen.push({ predicted: decision.predicted_cached_tokens ?? 0, cached })
    await bridge.settled()
    return text
  }
  for (let turn = 0; turn < turns; turn++) {
    for (let one = 0; one < conversations; one++) {
      // On and off the block boundary: the last block of a prompt of whole blocks is computed again.
      ids[one]!.push(...Array.from({ length: one % 3 === 0 ? 4 * blockTokens : 100 + turn }, token))
      await ask('/v1/completions', { prompt: ids[one] }, one)
      if (gateway.kind === 'worker') continue
      chats[one]!.push({ role: 'user', content: words() })
      const content = await ask('/v1/chat/completions', { messages: chats[one] }, one)
      chats[one]!.push({ role: 'assistant', content })
    }
  }
  const { events, gaps, losses, blocks } = (await bridge.status()).engines[0]!
  const { cached_blocks: estimated } = await digestEngineOf(gateway, 'little')
  const wrong = seen.filter(({ predicted, cached }) => predicted !== cached)
  const hits = seen.filter(({ cached }) => cached > 0).length
  const result =
    `${seen.length - wrong.length} of ${seen.length} exact, ${hits} with a hit, ` +
    `${seen.reduce((sum, { cached }) => sum + cached, 0)} tokens reported; ${events - before.events} events, ` +
    `${gaps} gaps, ${losses} losses, ${blocks} blocks held and ${estimated} ` +
    `estimated${wrong.length === 0 ? '' : `; predicted/reported: ${wrong.map(({ predicted, cached }) => `${predicted}/${cached}`).join(' ')}`}`
  check(wrong.length === 0 && losses === 0 && hits >= seen.length / 4, result)
  return result
}
