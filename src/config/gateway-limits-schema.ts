/** Schema of the limits of a gateway: sizes of requests and times of clients. */
import * as z from 'zod/mini'
import { DENIED_FIELDS } from '../engines/engine-registry.ts'
import { describe, hostName, int, strict, text, withDefault } from './fields.ts'

export const gatewayLimits = strict({
  body_bytes: describe('Maximum size of a request body.', withDefault(int(1024, 1_073_741_824), 33_554_432)),
  buffered_bytes: describe(
    'Maximum total size of request bodies buffered until their engines answer, per process, or per isolate on ' +
      'Workers. Beyond it, requests get 503 `request_buffers_full`. Bodies over 1 MiB may not use the last ' +
      'quarter. At least `body_bytes`. Default: 256 MiB on Node, 64 MiB on Workers, or `body_bytes` if that is ' +
      'larger.',
    z.optional(int(1024, 1_099_511_627_776)),
  ),
  max_json_cost: describe(
    'Maximum parse cost of a request body, in units of about 0.1 µs: a string or a known key costs 3, a new ' +
      'key 12, an object 6 besides its keys, a list 2, a token id about a third. The length of strings does not ' +
      'count. A more expensive body would delay other requests.',
    withDefault(int(1024, 1_073_741_824), 500_000),
  ),
  max_json_depth: describe(
    'Maximum nesting of arrays and objects in a request body, the body included. Beyond it 400.',
    withDefault(int(4, 1024), 128),
  ),
  max_n: describe(
    'Maximum number of choices of a request: `n` and `best_of`. Beyond it 400.',
    withDefault(int(1, 1_000_000), 128),
  ),
  max_output_tokens: describe(
    'Maximum number of output tokens of a request: `max_tokens`, `max_completion_tokens`, `max_output_tokens`. ' +
      'Beyond it 400. A request that names none has the engine’s own limit. Absent: no limit.',
    z.optional(int(1, 1_000_000_000)),
  ),
  media_hosts: describe(
    'Hosts that URLs of images, audio, videos and files in a body may name, such as `images.example.com` or ' +
      '`*.cdn.example.com`. `data:` URLs are always allowed; `[]`: only they are. Engines resolve and fetch ' +
      'these URLs themselves, and may follow redirects. Absent: any URL.',
    z.optional(z.array(hostName)),
  ),
  denied_fields: describe(
    'Fields of a body that no client may send, at its top or in `extra_body`: 400. By default those of SGLang ' +
      'and TensorRT-LLM that name transfer servers, data-parallel ranks, files, sessions or code: ' +
      `${DENIED_FIELDS.map((name) => `\`${name}\``).join(', ')}. A list replaces the default; \`[]\`: none.`,
    withDefault(z.array(text(128)), [...DENIED_FIELDS]),
  ),
  heartbeat_ms: describe(
    'Interval of SSE comments to the client while an engine sends nothing. 0: none.',
    withDefault(int(0, 3_600_000), 15_000),
  ),
  drain_ms: describe('How long running streams may continue after SIGTERM.', withDefault(int(0, 3_600_000), 25_000)),
  write_ms: describe(
    'Timeout for a client that reads nothing of its response. After it, the request ends, its engine is free, ' +
      'and `firstlight_rejected_requests_total` counts `write_timeout`. On Workers it applies only to observed ' +
      'streams (`observe_share`). 0: no limit.',
    withDefault(int(0, 3_600_000), 60_000),
  ),
  connections: describe(
    'Node only: maximum number of client connections served concurrently by the process. Further ones get 503 ' +
      '`connections_full`. Default: half of what the limit of open files (`ulimit -n`) leaves, so that each ' +
      'client connection can have one to an engine.',
    z.optional(int(1, 10_000_000)),
  ),
  response_ids: describe(
    'Number of stored responses (`previous_response_id`) whose engine is recorded.',
    withDefault(int(0, 10_000_000), 10_000),
  ),
})
