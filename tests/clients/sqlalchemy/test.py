"""SQLAlchemy 2 over psycopg: an ORM session, the core, reflection."""

import contextlib
import datetime
import decimal
import uuid

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from tap import check, equal, run

# libpq takes the address from PGHOST, PGPORT, PGUSER and PGDATABASE.
engine = sa.create_engine("postgresql+psycopg://")


class Base(orm.DeclarativeBase):
    pass


class Station(Base):
    __tablename__ = "stations"

    id: orm.Mapped[int] = orm.mapped_column(sa.Identity(), primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40), unique=True)
    river: orm.Mapped[str | None]
    height_m: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(8, 2))
    built: orm.Mapped[datetime.date | None]
    seen_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(sa.DateTime(timezone=True))
    is_open: orm.Mapped[bool] = orm.mapped_column(server_default=sa.true())
    code: orm.Mapped[uuid.UUID | None]
    levels: orm.Mapped[list[int] | None] = orm.mapped_column(ARRAY(sa.Integer))
    extra: orm.Mapped[dict | None] = orm.mapped_column(JSONB)


class Reading(Base):
    __tablename__ = "readings"

    station_id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    at: orm.Mapped[datetime.datetime] = orm.mapped_column(primary_key=True)
    level_cm: orm.Mapped[float]


def station(name, **more):
    return Station(name=name, height_m=decimal.Decimal("12.50"), **more)


@contextlib.contextmanager
def fresh_session():
    """A session over tables that are new."""
    with engine.begin() as connection:
        for table in (Reading, Station):
            connection.execute(sa.schema.DropTable(table.__table__, if_exists=True))
            connection.execute(sa.schema.CreateTable(table.__table__))
    with orm.Session(engine) as session:
        yield session


@check
def objects_are_kept_and_found(session):
    wanted = dict(
        river="Main", built=datetime.date(1913, 4, 1), code=uuid.uuid4(), levels=[1, 2],
        seen_at=datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
        extra={"a": [1, {"b": None}]},
    )
    kept = station("Würzburg", **wanted)
    session.add(kept)
    session.commit()
    session.expire_all()
    found = session.scalars(sa.select(Station).where(Station.name == "Würzburg")).one()
    equal({name: getattr(found, name) for name in wanted}, wanted)
    equal((found.height_m, found.is_open), (decimal.Decimal("12.50"), True))
    assert found.id is not None


@check
def many_objects_get_their_keys(session):
    stations = [station(f"s{i}") for i in range(2500)]
    session.add_all(stations)
    session.flush()
    equal(len({each.id for each in stations}), 2500)
    equal(session.scalar(sa.select(sa.func.count()).select_from(Station)), 2500)


@check
def objects_are_changed_and_deleted(session):
    kept = station("Trier", river="Mosel")
    session.add(kept)
    session.commit()
    kept.river = "Saar"
    session.commit()
    equal(session.scalar(sa.select(Station.river)), "Saar")
    session.delete(kept)
    session.commit()
    equal(session.scalars(sa.select(Station)).all(), [])


@check
def a_savepoint_is_undone(session):
    session.add(station("Kaub"))
    session.flush()
    try:
        with session.begin_nested():
            session.add(station("Kaub"))
            session.flush()
    except sa.exc.IntegrityError as error:
        equal(error.orig.sqlstate, "23505")
    session.commit()
    equal(session.scalar(sa.select(sa.func.count(Station.id))), 1)


@check
def upsert_and_returning(session):
    rows = [dict(name=name, height_m=1) for name in ("a", "b")]
    session.execute(insert(Station).values(rows))
    statement = insert(Station).values([dict(name="b", height_m=2), dict(name="c", height_m=3)])
    statement = statement.on_conflict_do_update(
        index_elements=[Station.name], set_=dict(height_m=statement.excluded.height_m)
    ).returning(Station.name, Station.height_m)
    equal(sorted(session.execute(statement).all()), [("b", 2), ("c", 3)])
    changed = sa.update(Station).where(Station.name == "a").values(river="Lahn")
    equal(session.execute(changed.returning(Station.river)).all(), [("Lahn",)])
    equal(len(session.execute(sa.delete(Station).returning(Station.name)).all()), 3)


@check
def queries_of_the_core(session):
    start = datetime.datetime(2026, 1, 1)
    hours = [datetime.timedelta(hours=hour) for hour in range(48)]
    session.execute(sa.insert(Station), [dict(name=name, height_m=1) for name in ("a", "b")])
    ids = session.scalars(sa.select(Station.id).order_by(Station.name)).all()
    session.execute(sa.insert(Reading), [
        dict(station_id=id, at=start + hour, level_cm=100 * id + at)
        for id in ids for at, hour in enumerate(hours)
    ])
    day = sa.func.date_trunc("day", Reading.at)
    query = (
        sa.select(Station.name, day.label("day"), sa.func.max(Reading.level_cm).label("top"))
        .join(Reading, Reading.station_id == Station.id)
        .where(Reading.at >= start, Station.name.in_(["a", "b"]), Station.name.ilike("%A%"))
        .group_by(Station.name, day)
        .order_by("day")
    )
    rows = session.execute(query).all()
    equal([row.day for row in rows], [start, start + datetime.timedelta(days=1)])
    equal([row.top for row in rows], [100 * ids[0] + 23, 100 * ids[0] + 47])
    rank = sa.func.row_number().over(partition_by=Reading.station_id, order_by=Reading.at.desc())
    last = sa.select(Reading, rank.label("place")).subquery()
    query = sa.select(last.c.level_cm).where(last.c.place == 1).order_by(last.c.station_id)
    equal(session.scalars(query).all(), [100 * id + 47 for id in ids])


@check
def rows_are_streamed(session):
    session.execute(sa.insert(Station), [dict(name=f"s{i}", height_m=i) for i in range(500)])
    query = sa.select(Station.height_m).order_by(Station.height_m)
    result = session.execute(query.execution_options(yield_per=50))
    equal([int(row.height_m) for row in result], list(range(500)))


@check
def tables_are_reflected(session):
    inspector = sa.inspect(engine)
    assert {"stations", "readings"} <= set(inspector.get_table_names())
    columns = {column["name"]: column for column in inspector.get_columns("stations")}
    equal(list(columns), list(Station.__table__.columns.keys()))
    equal(str(columns["name"]["type"]), "VARCHAR(40)")
    equal(str(columns["height_m"]["type"]), "NUMERIC(8, 2)")
    equal(columns["river"]["nullable"], True)
    equal(columns["name"]["nullable"], False)
    key = inspector.get_pk_constraint("readings")
    equal(key["constrained_columns"], ["station_id", "at"])
    unique = inspector.get_unique_constraints("stations")
    equal([each["column_names"] for each in unique], [["name"]])


@check
def a_reflected_table_is_used(session):
    session.add(station("Köln", river="Rhein"))
    session.commit()
    table = sa.Table("stations", sa.MetaData(), autoload_with=engine)
    equal(session.execute(sa.select(table.c.name, table.c.river)).all(), [("Köln", "Rhein")])


@check
def tables_are_made_and_dropped_as_a_whole(session):
    session.close()
    Base.metadata.drop_all(engine)
    equal(sa.inspect(engine).has_table("stations"), False)
    Base.metadata.create_all(engine)
    equal(sa.inspect(engine).has_table("stations"), True)
    Base.metadata.create_all(engine)


run(f"SQLAlchemy {sa.__version__} over {engine.driver}", fresh_session)
