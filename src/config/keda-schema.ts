/** Schema of the external scaler for KEDA. */
import * as z from 'zod/mini'
import { address } from './address.ts'
import { certificate } from './epp-schema.ts'
import { describe, oneOf, strict, withDefault } from './fields.ts'

export const keda = strict({
  listen: describe('HOST:PORT of the gRPC service for KEDA.', z.prefault(address, '0.0.0.0:9004')),
  tls: describe(
    'Certificate at `listen`: `off`, `self_signed` (a new one at each start; KEDA needs `unsafeSsl: "true"` for ' +
      'it), or files.',
    withDefault(z.union([oneOf(['off', 'self_signed']), certificate]), 'off'),
  ),
})
