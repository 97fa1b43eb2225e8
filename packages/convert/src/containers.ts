/** Command lines of containers in Kubernetes manifests. */
import { isJsonObject } from '../../../src/core/json.ts'
import { items, text, type Tree, tree } from './documents.ts'
import { commandsOf } from './shell.ts'

/** Words of one container. The script of a shell (`sh -c`) is split, with the values of the container's variables. */
export function wordsOfContainer({ command, args, env }: Tree): string[] {
  const words = [...items(command), ...items(args)].flatMap((word) => text(word) ?? [])
  const at = words.indexOf('-c')
  if (at < 0 || !/(?:^|\/)(?:ba|da)?sh$/.test(words[0]!)) return words
  const assigned = items(env)
    .map(tree)
    .map(({ name, value }) => `${text(name)}='${text(value) ?? ''}'\n`)
  return commandsOf(`${assigned.join('')}${words.slice(at + 1).join(' ')}`).flat()
}

/** Commands of all containers of a Kubernetes manifest. */
export function containerCommands(manifest: unknown): string[][] {
  if (Array.isArray(manifest)) return manifest.flatMap(containerCommands)
  if (!isJsonObject(manifest)) return []
  const { command, args, ...rest } = manifest as Tree
  const words = [...items(command), ...items(args)].flatMap((word) => text(word) ?? [])
  const script = words.find((word) => word.includes('\n'))
  const own = words.length === 0 ? [] : script === undefined ? [words] : commandsOf(script)
  return [...own, ...Object.values(rest).flatMap(containerCommands)]
}
