import { createFleet, type Fleet, type FleetOptions } from '../../packages/simulator/src/fleet.ts'
import { afterEach, describe, expect, it } from 'vitest'

/** Tests of a fleet behind `fetch`, for any runtime. */
export function fleetByFetch(runtime: string): void {
  let fleet: Fleet | undefined
  afterEach(() => fleet?.stop())
  const open = (options: FleetOptions = {}): Fleet => (fleet = createFleet({ profile: 'test', ...options }))
  const ask = (base: string, body: object, signal?: AbortSignal): Request =>
    new Request(`${base}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }], max_tokens: 8, ...body }),
      ...(signal === undefined ? {} : { signal }),
    })

  describe(`a fleet behind fetch on ${runtime}`, () => {
    it('a fleet behind fetch streams a response to its end', async () => {
      const { urls, fetch } = open()
      const text = await (await fetch(ask(urls[0]!, { stream: true }))).text()
      expect(text.match(/"delta":\{"content":" /g)).toHaveLength(8)
      expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    })

    it('a fleet behind fetch records what it receives', async () => {
      const { urls, fetch } = open()
      const form = new FormData()
      form.set('file', new File(['x'.repeat(20_000)], 'a.wav'))
      form.set('max_completion_tokens', '3')
      const receive = async () =>
        (await fetch(new Request(`${urls[0]!}/v1/audio/transcriptions`, { method: 'POST', body: form }))).text()
      expect(JSON.parse(await receive())).toEqual({
        text: expect.stringMatching(/^( \w+){3}$/),
        usage: { type: 'duration', seconds: 2 },
      })
      form.set('stream', 'true')
      expect((await receive()).match(/"object":"transcription\.chunk"/g)).toHaveLength(3)
      form.delete('file')
      expect(await receive()).toContain("'loc': 'body.file'")
    })

    it('a fleet behind fetch aborts when the reader cancels', async () => {
      const { urls, fetch, engines } = open({ profile: 'demo' })
      const reader = (await fetch(ask(urls[0]!, { stream: true, max_tokens: 5000 }))).body!.getReader()
      await reader.read()
      await reader.cancel()
      expect(engines[0]!.log).toMatchObject({ aborted: 1, running: 0 })
      expect(engines[0]!.driver.model.running).toBe(0)
    })

    it('a fleet behind fetch rejects if the signal is aborted before the response', async () => {
      const { urls, fetch, engines } = open({ profile: 'demo' })
      const leave = new AbortController()
      const answer = fetch(ask(urls[0]!, { max_tokens: 5000 }, leave.signal))
      setTimeout(() => leave.abort(new Error('gone')), 30)
      await expect(answer).rejects.toThrow('gone')
      expect(engines[0]!.log.running).toBe(0)
      expect(engines[0]!.driver.model.running + engines[0]!.driver.model.waiting).toBe(0)
    })

    it('a fleet behind fetch fails as fetch does if no engine listens, and resets a stream', async () => {
      const { urls, fetch, engines } = open()
      engines[0]!.setFault({ kind: 'refuse' })
      await expect(fetch(ask(urls[0]!, {}))).rejects.toThrow(TypeError)
      engines[0]!.setFault({ kind: 'reset', after: 2 })
      const answer = await fetch(ask(urls[0]!, { stream: true }))
      await expect(answer.text()).rejects.toThrow('reset the connection')
    })
  })
}
