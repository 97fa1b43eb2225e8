/** Schema of `kubernetes` of an engine with `discover: kubernetes` or `inferencepool`: which pods are engines. */
import * as z from 'zod/mini'
import { describe, int, oneOf, strict, textLike, withDefault } from './fields.ts'

const namespace = textLike(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'must be the name of a Kubernetes namespace')

const portName = textLike(
  /^(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$/,
  'must be a port number, or the name of a container port: at most 15 lower-case letters, digits and "-"',
)

/** A label as KEY=VALUE. The value may be empty. */
const labelPair = textLike(
  /^[A-Za-z0-9][-A-Za-z0-9_./]{0,315}=[-A-Za-z0-9_.]{0,63}$/,
  'must be one label, such as app=vllm',
)

const labelList = z.prefault(z.array(labelPair), [])

export const kubernetesPods = strict({
  namespace: describe('Namespace of the pods. Absent: the namespace of the gateway.', z.optional(namespace)),
  selector: describe(
    'Label selector, as for `kubectl --selector`: `app=vllm,environment in (prod, canary)`. For ' +
      '`discover: kubernetes`.',
    z.optional(
      textLike(/^[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?$/, 'must be a label selector, such as app=vllm'),
    ),
  ),
  pool: describe(
    'Name of an `InferencePool` (`inference.networking.k8s.io/v1`), whose selector and target ports are used. For ' +
      '`discover: inferencepool`.',
    z.optional(textLike(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, 'must be the name of an InferencePool')),
  ),
  port: describe(
    'Container port of the server, by name or number. Absent: the port of the URL, or the pool’s target ports.',
    z.optional(z.union([int(1, 65_535), portName])),
  ),
  ports: describe(
    'Ports of data-parallel ranks that have one each, as `8000-8007` or as a list: each port of a pod is an ' +
      'engine. For `discover: kubernetes`. Absent: `port`.',
    z.optional(
      z.union([
        textLike(/^\d{1,5}-\d{1,5}$/, 'must be a range of ports, such as 8000-8007'),
        z.array(int(1, 65_535)).check(z.minLength(1)),
      ]),
    ),
  ),
  prefill_labels: describe(
    'Labels as `KEY=VALUE`. A pod with one of them has the role `prefill`; without a match it has `role`.',
    labelList,
  ),
  decode_labels: describe('The same for the role `decode`.', labelList),
  encode_labels: describe('The same for the role `encode`.', labelList),
  match: describe(
    'Which selected pods serve this pool. `model`: those whose `/v1/models` lists the pool’s model, so that ' +
      'several pools can share a selector. `all`: every pod; models are not read.',
    withDefault(oneOf(['model', 'all']), 'model'),
  ),
})
