/** Settings of engines that decide placements and texts of refusals, from the configuration to the client. */
import { describe, expect, it } from 'vitest'
import { ADMIN_KEY, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { FakeEngine } from '../kit/fake-engine.ts'

const BLOCK_TOKENS = 16
const PROMPT = Array.from({ length: 4 * BLOCK_TOKENS }, (_, at) => 100 + at)
const ANSWER = {
  object: 'text_completion',
  choices: [{ index: 0, text: 'a', finish_reason: 'length' }],
  usage: { prompt_tokens: PROMPT.length, completion_tokens: 1, total_tokens: PROMPT.length + 1 },
}

interface DryRun {
  readonly decision: { readonly candidates: readonly { readonly terms: Readonly<Record<string, number>> }[] }
}

export function engineSettingsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  const admin = {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN_KEY}`, 'content-type': 'application/json' },
  }

  /** Cached tokens of the prompt on the only engine of a pool, after it has served that prompt. */
  async function cachedAfterServing(gateway: TestGateway, model: string): Promise<number | undefined> {
    expect((await gateway.post('/v1/completions', { model, prompt: PROMPT })).status).toBe(200)
    await gateway.idle()
    const url = `${gateway.url}/v1/firstlight/route?endpoint=/v1/completions`
    const response = await fetch(url, { ...admin, body: JSON.stringify({ model, prompt: PROMPT }) })
    const { decision } = (await response.json()) as DryRun
    return decision.candidates[0]!.terms['cached_tokens']
  }

  describe(`settings of engines on ${name}`, () => {
    it('an engine with prefix_caching off counts as cold after it served a prompt, one with it on does not', async () => {
      await using caching = await FakeEngine.open({ 'POST *': { body: ANSWER } })
      await using cold = await FakeEngine.open({ 'POST *': { body: ANSWER } })
      const poolOf = (setting: 'on' | 'off', { url }: FakeEngine) => ({
        model: setting,
        policy: 'ttft',
        block_tokens: BLOCK_TOKENS,
        engines: [{ id: setting, url, prefix_caching: setting }],
      })
      await using gateway = await openGateway({
        runtime,
        config: { clusters: [{ id: 'c', pools: [poolOf('on', caching), poolOf('off', cold)] }] },
      })
      expect(await cachedAfterServing(gateway, 'on')).toBeGreaterThanOrEqual(3 * BLOCK_TOKENS)
      expect(await cachedAfterServing(gateway, 'off')).toBe(0)
    })

    it('a 503 for a missing engine of a role names the role and the labels of its engines', async () => {
      await using prefill = await FakeEngine.open({ 'POST *': { body: ANSWER } })
      await using decode = await FakeEngine.open({ 'POST *': { body: ANSWER } })
      const engineOf = (role: string, { url }: FakeEngine) => ({ id: role, url, role, labels: { app: `vllm-${role}` } })
      await using gateway = await openGateway({
        runtime,
        engines: [engineOf('prefill', prefill), engineOf('decode', decode)],
        pool: { split: { mode: 'always', connector: 'nixl', fallback: 'fail' } },
      })
      const set = async (engineId: string, action: 'drain' | 'undrain') => {
        const response = await fetch(`${gateway.url}/v1/firstlight/engines/${engineId}/${action}`, admin)
        expect(response.status).toBe(200)
      }
      const refusal = async () => {
        const response = await gateway.chat()
        const { error } = (await response.json()) as { error?: { readonly code: string; readonly message: string } }
        return [response.status, error?.code, error?.message]
      }
      await set('prefill', 'drain')
      expect(await refusal()).toEqual([
        503,
        'role_empty',
        'No engine with role "prefill" (app=vllm-prefill) is available.',
      ])
      await set('prefill', 'undrain')
      await set('decode', 'drain')
      expect(await refusal()).toEqual([
        503,
        'role_empty',
        'No engine with role "decode" (app=vllm-decode) is available.',
      ])
    })
  })
}
