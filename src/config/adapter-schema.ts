/** Schema of the LoRA adapters of a pool: their names, also how engines load them, or those that engines report. */
import * as z from 'zod/mini'
import { describe, int, milliseconds, modelName, strict, text, withDefault } from './fields.ts'

const adapter = strict({
  name: describe('Name under which clients request it.', modelName),
  path: describe('Folder or repository from which engines load it, instead of `path`.', z.optional(text(1024))),
  base: describe('Its base model: the pool’s model, or an alias of it.', z.optional(modelName)),
})

const loadable = strict({
  names: describe('Adapters, by name or as `{ name, path, base }`.', z.array(z.union([modelName, adapter]))),
  load: describe(
    'Engines load an adapter when a request needs it, and unload the least recently used one without requests ' +
      '(vLLM with `VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`, SGLang with `--enable-lora`).',
    withDefault(z.boolean(), false),
  ),
  path: describe(
    'Folder or repository of adapters without a `path` of their own; `{name}` stands for the name.',
    z.optional(text(1024)),
  ),
  max_per_engine: describe(
    'Adapters that one server has loaded, at most: `--max-cpu-loras` of vLLM, `--max-loaded-loras` of SGLang.',
    withDefault(int(1, 1000), 8),
  ),
  load_ms: describe('Maximum time for which a request waits for its adapter.', withDefault(milliseconds(), 60_000)),
})

export const adapters = z.union([z.literal('auto'), z.array(modelName), loadable])
