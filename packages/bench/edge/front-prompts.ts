/**
 * CPU of a front and a region together, with a vocabulary: the region measures each prompt again, or accepts what the
 * front has measured. Slices alternate, so that other work on the machine changes both alike.
 */
import { childNamed, cpuSeconds } from '../proxy/processes.ts'
import { median } from '../median.ts'
import { complete, type Start, withVocabulary } from './long-prompts.ts'

const SUBJECTS = ['front exact twice', 'front exact'] as const
/** The longer one fits into the header. */
const LOADS = [
  { name: '1k', chars: 1_000, requests: 400, connections: 16 },
  { name: '200k', chars: 200_000, requests: 60, connections: 4 },
] as const
type Load = (typeof LOADS)[number]

/** CPU per request and, as a median over the rounds, its ratio to measuring twice. */
export function frontPrompts(
  start: Start,
  engines: readonly string[],
  rounds: number,
): Promise<Readonly<Record<string, number>>> {
  return withVocabulary(async (text) => {
    const workers: { readonly port: number; readonly pid: number }[] = []
    for (const subject of SUBJECTS) {
      const { port, pid } = await start('../edge/host.ts', [subject, ...engines])
      workers.push({ port, pid: childNamed(pid, 'workerd') })
    }
    const headline: Record<string, number> = {}
    for (const load of LOADS) {
      const slice = sliceOf(load, text)
      const slices: number[][] = []
      for (let round = -1; round < rounds; round++) {
        const times: number[] = []
        for (const worker of workers) times.push(await slice(worker))
        // V8 optimizes in the first one.
        if (round >= 0) slices.push(times)
      }
      headline[`front_twice_cpu_us_${load.name}`] = median(slices.map(([twice]) => twice!))
      headline[`front_once_cpu_us_${load.name}`] = median(slices.map(([, once]) => once!))
      headline[`front_once_ratio_${load.name}`] = median(slices.map(([twice, once]) => once! / twice!))
    }
    return headline
  })
}

/** Runs one slice and returns the CPU per request, µs. Each prompt begins at another place of the text. */
function sliceOf({ chars, requests, connections }: Load, text: string) {
  let serial = 0
  return async ({ port, pid }: { readonly port: number; readonly pid: number }): Promise<number> => {
    const before = cpuSeconds(pid)
    let left = requests
    const client = async (): Promise<void> => {
      while (left-- > 0) {
        const from = (serial++ * 7919) % (text.length - chars)
        await complete(port, text.slice(from, from + chars))
      }
    }
    await Promise.all(Array.from({ length: connections }, client))
    return Math.round(((cpuSeconds(pid) - before) / requests) * 1e6)
  }
}
