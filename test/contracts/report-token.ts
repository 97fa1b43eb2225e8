/** The token of TTFT reports, `ttft.token`, on any runtime. */
import { describe, expect, it } from 'vitest'
import { ADMIN_KEY, openGateway, type Runtime, runtimeNames } from '../kit/gateway.ts'

const TOKEN = 'token-of-the-reporters'

export function reportTokenContract(runtime: Runtime): void {
  describe(`the token of TTFT reports on ${runtimeNames[runtime]}`, () => {
    it('ttft.token is needed to send and to read reports, in the path or as bearer token', async () => {
      await using gateway = await openGateway({
        runtime,
        engines: ['http://127.0.0.1:9'],
        config: { ttft: { enabled: true, token: TOKEN } },
      })
      const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })
      const post = async (path: string, init: RequestInit = {}) => {
        const body = JSON.stringify({ role: 'pd', request_id: 'a', prefill_queue_time_ms: 1 })
        return (await fetch(gateway.url + path, { method: 'POST', body, ...init })).status
      }
      const read = async (path: string, init: RequestInit = {}) => (await fetch(gateway.url + path, init)).status
      expect(await post('/ttft_report')).toBe(401)
      expect(await post(`/ttft_report/${TOKEN}x`)).toBe(401)
      expect(await post('/ttft_report', bearer('another'))).toBe(401)
      expect(await post('/ttft_report', bearer(ADMIN_KEY))).toBe(401)
      expect(await read(`/ttft_report/${TOKEN}/a`)).toBe(404)
      expect(await post(`/ttft_report/${TOKEN}`)).toBe(200)
      expect(await post('/ttft_report', bearer(TOKEN))).toBe(200)
      expect(await read('/ttft_report/a')).toBe(401)
      expect(await read('/ttft_report/a', bearer('another'))).toBe(401)
      for (const [path, init] of [
        [`/ttft_report/${TOKEN}/a`, {}],
        ['/ttft_report/a', bearer(TOKEN)],
        ['/ttft_report/a', bearer(ADMIN_KEY)],
      ] as const)
        expect(await read(path, init), path).toBe(200)
    })
  })
}
