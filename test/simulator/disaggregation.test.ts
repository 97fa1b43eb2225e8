import { describe, expect, it } from 'vitest'
import type { Clock } from '../../packages/simulator/src/clock.ts'
import { createFleet, type Fleet, type FleetOptions } from '../../packages/simulator/src/fleet.ts'
import { turns } from '../wait.ts'

/** A clock that jumps to the next timer, so that a lease takes no real time. */
function jumpingClock(): Clock & { pass(ms: number): Promise<void> } {
  let now = 1_000_000
  let due: { at: number; run: () => void }[] = []
  const settle = async (): Promise<void> => {
    for (let at = 0; at < 20; at += 1) await Promise.resolve()
  }
  return {
    now: () => now,
    after(ms, run) {
      const entry = { at: now + ms, run }
      due.push(entry)
      return () => {
        due = due.filter((other) => other !== entry)
      }
    },
    async pass(ms) {
      const end = now + ms
      await settle()
      for (;;) {
        due.sort((a, b) => a.at - b.at)
        const next = due[0]
        if (next === undefined || next.at > end) break
        due.shift()
        now = next.at
        next.run()
        await settle()
      }
      now = end
    },
  }
}

const roles = [{ id: 'p', role: 'prefill' as const }, { id: 'd', role: 'decode' as const }, { id: 'whole' }]
const empty = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
}
const prompt = Array.from({ length: 300 }, (_, at) => 1000 + at)

type Ask = (engine: string, body: object, path?: string) => Promise<{ status: number; json: Answer }>

function open(options: FleetOptions = {}): { fleet: Fleet; clock: ReturnType<typeof jumpingClock>; ask: Ask } {
  const clock = jumpingClock()
  const fleet = createFleet({ engines: roles, profile: 'test', clock, ...options })
  const ask: Ask = async (engine, body, path = '/v1/completions') => {
    const request = new Request(`http://${engine}.sim${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': 'pd-1' },
      body: JSON.stringify({ prompt, max_tokens: 8, temperature: 0, ...body }),
    })
    const answer = fleet
      .fetch(request)
      .then(async (response) => ({ status: response.status, json: (await response.json()) as Answer }))
    answer.catch(() => undefined)
    // Reading the request body takes real turns of the event loop.
    await turns()
    await clock.pass(2000)
    return answer
  }
  return { fleet, clock, ask }
}

interface Answer {
  readonly choices: readonly { readonly text: string }[]
  readonly usage: { readonly prompt_tokens_details: { readonly cached_tokens: number } }
  readonly kv_transfer_params: Record<string, unknown> | null
  readonly error?: { readonly message: string; readonly param: string | null }
}

describe('prefill and decode on two engines', () => {
  it('prefill and decode on two engines return the text of one engine, with blocks fetched instead of computed', async () => {
    const { fleet, ask } = open()
    const prefilled = await ask('p', { max_tokens: 1, kv_transfer_params: empty })
    const params = prefilled.json.kv_transfer_params!
    expect(params).toMatchObject({
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_num_tokens: 300,
      transfer_mode: 'pull',
    })
    expect(params['remote_request_id']).toMatch(/^cmpl-pd-1-0-[0-9a-f]{8}$/)
    expect((params['remote_block_ids'] as number[][])[0]).toHaveLength(Math.ceil(300 / 16))
    const decoded = await ask('d', { kv_transfer_params: params })
    const whole = await ask('whole', {})
    expect(decoded.json.choices[0]!.text).toBe(whole.json.choices[0]!.text)
    // As in vLLM, fetched tokens are not reported as cached.
    expect(decoded.json.usage.prompt_tokens_details.cached_tokens).toBe(0)
    expect(fleet.engine('d').driver.model.counters.fetchedTokens).toBe(300)
    expect(fleet.engine('p').driver.model.usage).toBe(0)
  })

  it('prefill and decode on two engines compute the prompt again and count it if the lease has expired', async () => {
    const { fleet, clock, ask } = open()
    const prefilled = await ask('p', { max_tokens: 1, kv_transfer_params: empty })
    await clock.pass(31_000)
    const decoded = await ask('d', { kv_transfer_params: prefilled.json.kv_transfer_params })
    expect(decoded.status).toBe(200)
    expect(fleet.engine('d').kv!.violations.expired).toBe(1)
    expect(fleet.engine('d').driver.model.counters.fetchedTokens).toBe(0)
    expect(fleet.engine('p').driver.model.counters.lapsedHolds).toBe(1)
  })

  it('prefill and decode on two engines count parameters that are used twice, on both sides', async () => {
    const { fleet, ask } = open()
    const { json } = await ask('p', { max_tokens: 1, kv_transfer_params: empty })
    await ask('d', { kv_transfer_params: json.kv_transfer_params })
    const again = await ask('d', { kv_transfer_params: json.kv_transfer_params })
    expect(again.status).toBe(200)
    expect(fleet.engine('d').kv!.violations.reused).toBe(1)
    expect(fleet.engine('p').kv!.lateReads).toBe(1)
  })

  it('prefill and decode on two engines count parameters of another prompt or of an unknown prefill', async () => {
    const { fleet, ask } = open()
    const { json } = await ask('p', { max_tokens: 1, kv_transfer_params: empty })
    await ask('d', { prompt: [9, 8, 7], kv_transfer_params: json.kv_transfer_params })
    await ask('d', { kv_transfer_params: { ...json.kv_transfer_params, remote_request_id: 'cmpl-made-up' } })
    expect(fleet.engine('d').kv!.violations).toMatchObject({ mismatch: 1, unknownPrefill: 1 })
  })

  it('fail after five seconds if the prefill engine is unknown', async () => {
    const { fleet, clock, ask } = open()
    const { json } = await ask('p', { max_tokens: 1, kv_transfer_params: empty })
    const started = clock.now()
    const answer = ask('d', { kv_transfer_params: { ...json.kv_transfer_params, remote_engine_id: 'nobody' } })
    await turns()
    await clock.pass(5000)
    expect((await answer).status).toBe(500)
    expect(clock.now() - started).toBeGreaterThan(5100)
    expect(fleet.engine('d').kv!.violations.unknownEngine).toBe(1)
    expect((await ask('d', {})).status).toBe(200)
  })

  it('prefill and decode on two engines end the decode engine if parameters have no prefill, as in vLLM', async () => {
    const { fleet, ask } = open()
    const answer = ask('d', { kv_transfer_params: { do_remote_prefill: true } })
    expect((await answer).status).toBe(500)
    expect((await answer).json.error!.message).toContain('EngineCore encountered an issue')
    expect(fleet.engine('d').listening).toBe(false)
    await expect(ask('d', {})).rejects.toThrow('fetch failed')
    expect(fleet.engine('d').kv!.violations.fatal).toBe(1)
  })

  it.each([
    ['streams', { stream: true }, 'must not stream'],
    ['asks for more than a token', { max_tokens: 2 }, 'max_tokens must be 1, got 2'],
    ['asks for two choices', { max_tokens: 1, n: 2 }, 'n must be 1'],
    ['names a remote', { max_tokens: 1, kv_transfer_params: { ...empty, remote_host: 'x' } }, 'remote_* must be null'],
  ])('prefill and decode on two engines reject a prefill leg that %s', async (_what, body, message) => {
    const { fleet, ask } = open()
    const answer = await ask('p', { kv_transfer_params: empty, ...body })
    expect(answer.status).toBe(400)
    expect(answer.json.error).toMatchObject({ param: 'kv_transfer_params' })
    expect(answer.json.error!.message).toContain(message)
    expect(fleet.engine('p').kv!.violations.badPrefill).toBe(1)
  })

  it('prefill and decode on two engines ignore the parameters without a connector', async () => {
    const { ask } = open()
    const answer = await ask('whole', { kv_transfer_params: { do_remote_prefill: true } })
    expect(answer.status).toBe(200)
    expect(answer.json.kv_transfer_params).toBeNull()
  })
})

describe('encode engines', () => {
  it('encode engines let other engines skip items that are already encoded', async () => {
    const { fleet, ask } = open({ engines: [{ id: 'e', role: 'encode' }, { id: 'a' }, { id: 'b' }] })
    const messages = [
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
    ]
    const encodedBy = async (engine: string): Promise<number> => {
      await ask(engine, { messages, max_tokens: 1 }, '/v1/chat/completions')
      return fleet.engine(engine).driver.model.counters.encodedItems
    }
    expect(await encodedBy('a')).toBe(1)
    expect(await encodedBy('e')).toBe(1)
    expect(await encodedBy('b')).toBe(0)
    // Its own cache has the image too.
    expect(await encodedBy('a')).toBe(1)
  })
})
