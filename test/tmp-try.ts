import { startFleet } from '../src/platform/node/simulator-host.ts'
import { startBuiltWorker } from './origin/built-worker.ts'
import { startSilent } from './node/silent-gateway.ts'
const fleets = await Promise.all([2, 2].map((engines) => startFleet({ engines, model: 'sim', profile: 'instant' })))
const regional = (fleet: { urls: readonly string[] }, key = {}) => startSilent({ keys: [{ name: 'edge', secret: 'e', edge: true, ...key }], admin: { secret: 'a' }, clusters: [{ id: 'here', pools: [{ model: 'sim', engines: fleet.urls.map((url, i) => ({ id: `e${i}`, url })) }] }] })
const paris = await regional(fleets[0]!)
const tokyo = await regional(fleets[1]!, { cache_salt: 'over-there' })
const doc = (more = {}) => ({ keys: [{ name: 'team', secret: 'k', cache_salt: 'team-salt', edge: true }], admin: { secret: 'a' }, clusters: [
  { id: 'paris', gateway: { url: paris.url, key: 'e', outlook_ms: 300, models: [{ model: 'sim', aliases: ['m'] }] } },
  { id: 'tokyo', gateway: { url: tokyo.url, key: 'e', outlook_ms: 300, models: [{ model: 'sim', aliases: ['m'] }] } },
], ...more })
const get = async (base: string, path: string, init: any = {}) => { const r = await fetch(base + path, { ...init, headers: { authorization: `Bearer ${init.key ?? 'a'}`, 'content-type': 'application/json', ...init.headers } }); return { status: r.status, headers: r.headers, text: await r.text() } }
const chat = (base: string, content: string, more: any = {}, headers = {}) => get(base, '/v1/chat/completions', { method: 'POST', key: 'k', body: JSON.stringify({ model: 'm', max_tokens: 2, messages: [{ role: 'user', content }], ...more }), headers })
const pause = (ms: number) => new Promise((r) => setTimeout(r, ms))
for (const kind of ['node', 'worker']) {
  const edge = kind === 'node' ? await startSilent(doc()) : await startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify({ ...doc(), log: { level: 'silent' } }) })
  console.log('=====', kind)
  for (let i = 0; i < 4; i++) { await chat(edge.url, `hello ${i}`); await pause(350) }
  const long = 'word '.repeat(2000)
  for (let i = 0; i < 6; i++) { const a = await chat(edge.url, long + 'q' + i, {}, { 'x-request-id': `my-${kind}-${i}` }); const u = JSON.parse(a.text).usage; console.log(a.status, a.headers.get('x-firstlight-cluster'), a.headers.get('x-firstlight-engine'), a.headers.get('x-firstlight-policy'), u.prompt_tokens_details?.cached_tokens); await pause(350) 
    if (i === 5) {
      const d = a.headers.get('x-firstlight-decision')!; console.log('decision header', d)
      console.log('edge decision', (await get(edge.url, `/v1/firstlight/decisions/${d.split(';')[0]}`)).text.slice(0, 250))
      for (const r of [paris, tokyo]) console.log('region request', (await get(r.url, `/v1/firstlight/requests/my-${kind}-5`)).text.slice(0, 200))
      console.log('edge request', (await get(edge.url, `/v1/firstlight/requests/my-${kind}-5`)).text.slice(0, 200))
    }
  }
  console.log('fleet', JSON.stringify(JSON.parse((await get(edge.url, '/v1/firstlight/fleet')).text).pools.map((p: any) => ({ ...p, aliases: undefined }))))
  console.log('drain', (await get(edge.url, '/v1/firstlight/engines/paris/drain', { method: 'POST' })).text)
  const went: any = {}
  for (let i = 0; i < 8; i++) { const a = await chat(edge.url, `drained ${i}`); went[a.headers.get('x-firstlight-cluster')!] = (went[a.headers.get('x-firstlight-cluster')!] ?? 0) + 1 }
  console.log('went', went)
  console.log('undrain', (await get(edge.url, '/v1/firstlight/engines/paris/undrain', { method: 'POST' })).text)
  const resp = await get(edge.url, '/v1/responses', { method: 'POST', key: 'k', body: JSON.stringify({ model: 'm', input: 'x', max_output_tokens: 2 }) })
  console.log('responses', resp.status, resp.headers.get('x-firstlight-cluster'), resp.text.slice(0, 150))
  try { const id = JSON.parse(resp.text).id; const again = await get(edge.url, `/v1/responses/${id}`, { key: 'k' }); console.log('held', again.status, again.headers.get('x-firstlight-cluster'), again.text.slice(0, 120)) } catch {}
  console.log('outlook of edge', (await get(edge.url, '/v1/firstlight/outlook?model=sim', { key: 'k' })).text.slice(0, 400))
  console.log('outlook closed to team w/o', (await get(paris.url, '/v1/firstlight/outlook?model=sim', { key: 'a' })).status)
  console.log('wish', (await chat(edge.url, 'x', { firstlight: { policy: 'random' } })).text.slice(0, 200))
  console.log('metrics', (await get(edge.url, '/metrics')).text.split('\n').filter((l) => /region|num_requests\{/.test(l) && !l.startsWith('#')).join('\n'))
  console.log('top tier')
  const top = await startSilent({ clusters: [{ id: 'edge', gateway: { url: edge.url, key: 'k', outlook_ms: 300, models: [{ model: 'sim' }] } }] })
  await pause(1500)
  console.log(JSON.stringify(JSON.parse((await get(top.url, '/v1/firstlight/fleet')).text).pools[0].gateway))
  const viaTop = await get(top.url, '/v1/chat/completions', { method: 'POST', body: JSON.stringify({ model: 'sim', max_tokens: 1, messages: [{ role: 'user', content: 'hi' }] }) })
  console.log(viaTop.status, viaTop.headers.get('x-firstlight-cluster'), viaTop.headers.get('x-firstlight-engine'))
  await top.close()
  await edge.close()
}
process.exit(0)
