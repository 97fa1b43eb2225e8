import { residencyContract } from '../../contracts/residency.ts'

residencyContract('worker')
