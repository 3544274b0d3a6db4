-- What people, teams, agents, keys and organizations were called as an export was made: its files name them so, whenever they are written.
create table export_names (
  export_id text not null,
  id text not null,
  name text not null,
  email text,
  primary key (export_id, id)
);
