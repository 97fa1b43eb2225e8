/** Schema of the endpoint picker of the Gateway API Inference Extension. */
import * as z from 'zod/mini'
import { address } from './address.ts'
import { describe, int, oneOf, strict, text, withDefault } from './fields.ts'

const file = text(4096)

/** Certificate of a gRPC listener. */
export const certificate = strict({
  cert: describe('File with the certificate and its intermediates, PEM; relative to the configuration.', file),
  key: describe('File with its private key, PEM, without a passphrase.', file),
})

export const epp = strict({
  listen: describe('HOST:PORT of the gRPC service for proxies.', z.prefault(address, '0.0.0.0:9002')),
  health: describe(
    'HOST:PORT of a second gRPC listener without TLS that has the health service only, for probes of Kubernetes. ' +
      'Absent: the health service is at `listen` only.',
    z.optional(address),
  ),
  tls: describe(
    'Certificate at `listen`: `self_signed` (a new one at each start; Envoy AI Gateway and llm-d do not verify ' +
      'it), `off`, or files.',
    withDefault(z.union([oneOf(['self_signed', 'off']), certificate]), 'self_signed'),
  ),
  fallbacks: describe(
    'Further engines in the destination header, for proxies that retry with it. Envoy’s `ORIGINAL_DST` and ' +
      'agentgateway refuse a list, so leave 0 for them.',
    withDefault(int(0, 8), 0),
  ),
  max_streams: describe(
    'Maximum number of requests at a time on one connection of a proxy.',
    withDefault(int(1, 1_000_000), 16_384),
  ),
  objectives: describe(
    'Priority of each `InferenceObjective` by its name. Requests with the header `x-llm-d-inference-objective` (or ' +
      '`x-gateway-inference-objective`) get a class by it: above 0 `critical`, 0 `standard`, below 0 `sheddable`. ' +
      'A key can lower its class only.',
    z.prefault(z.record(text(253), int(-1_000_000, 1_000_000)), {}),
  ),
  read_objectives: describe(
    'Reads the `InferenceObjective` resources (`llm-d.ai/v1alpha2`) of the pools of `discover: inferencepool`, ' +
      'too. Names in `objectives` take precedence.',
    withDefault(z.boolean(), false),
  ),
})
