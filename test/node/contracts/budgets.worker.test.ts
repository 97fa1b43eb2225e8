import { budgetsContract } from '../../contracts/budgets.ts'

budgetsContract('worker')
