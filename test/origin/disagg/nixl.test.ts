import { describe, expect, it } from 'vitest'
import { decodeParams } from '../../../src/origin/disagg/nixl.ts'
import type { EngineTarget } from '../../../src/ports/engine-target.ts'

const at = (url: string): EngineTarget => ({ kind: 'server', id: url, url, headers: [], binding: null })
/** Transfer parameters as vLLM 0.32 with NIXL returns them. */
const params = {
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_block_ids: [[1, 2, 3]],
  remote_engine_id: 'df8091a6-5d23-4137-880b-a291af4b16a4',
  remote_request_id: 'cmpl-pd-1-0-b2450b16',
  remote_host: '10.0.0.5',
  remote_port: 5600,
  tp_size: 1,
  remote_num_tokens: 300,
  remote_blocks_expiry_time: null,
  transfer_mode: 'pull',
}
const over = (changes: object, prefill = 'http://prefill.internal:8000', decode = 'http://decode.internal:8000') =>
  decodeParams({ kv_transfer_params: { ...params, ...changes } }, at(prefill), at(decode))

describe('transfer parameters of a NIXL prefill', () => {
  it('transfer parameters of a NIXL prefill passes as it is, fields of other versions included', () => {
    expect(over({ transfer_mode: 'push', brand_new: [1] })).toBe(
      JSON.stringify({ ...params, transfer_mode: 'push', brand_new: [1] }),
    )
  })

  it.each([
    ['', 'http://10.1.2.3:8000', '10.1.2.3'],
    [null, 'http://10.1.2.3:8000', '10.1.2.3'],
    ['0.0.0.0', 'https://prefill.internal/base', 'prefill.internal'],
    ['::', 'http://[2001:db8::5]:8000', '2001:db8::5'],
    ['localhost', 'http://10.1.2.3:8000', '10.1.2.3'],
    ['127.0.0.1', 'http://10.1.2.3:8000', '10.1.2.3'],
  ])(
    'transfer parameters of a NIXL prefill replace %j by a host that other engines can reach',
    (remoteHost, url, host) => {
      expect(JSON.parse(over({ remote_host: remoteHost }, url)!)).toEqual({ ...params, remote_host: host })
    },
  )

  it.each([
    ['a host of its own, whatever the URL is', '10.0.0.5', 'http://load-balancer:80', 'http://decode:80'],
    ['loopback between engines of one host', 'localhost', 'http://10.0.0.1:8000', 'http://10.0.0.1:8001'],
    ['loopback where the gateway knows nothing better', '127.0.0.1', 'http://localhost:8000', 'http://10.0.0.1:8001'],
  ])('transfer parameters of a NIXL prefill keeps %s', (_name, remoteHost, prefill, decode) => {
    expect(JSON.parse(over({ remote_host: remoteHost }, prefill, decode)!)).toMatchObject({ remote_host: remoteHost })
  })

  it.each([
    ['nothing', {}],
    ['null', { kv_transfer_params: null }],
    ['an empty object', { kv_transfer_params: {} }],
    ['a list', { kv_transfer_params: [] }],
    [
      'an order to fetch from nowhere, which ends the decode engine’s process',
      { kv_transfer_params: { do_remote_prefill: true } },
    ],
    ['an order to fetch without block ids', { kv_transfer_params: { ...params, remote_block_ids: null } }],
    ['an order to fetch no blocks', { kv_transfer_params: { ...params, remote_block_ids: [] } }],
    ['an order to fetch no blocks of any group', { kv_transfer_params: { ...params, remote_block_ids: [[], []] } }],
  ])('transfer parameters of a NIXL prefill are absent if the response has %s', (_name, answer) => {
    expect(decodeParams(answer, at('http://p'), at('http://d'))).toBeNull()
  })
})
